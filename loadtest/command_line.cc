// SPDX-License-Identifier: Apache-2.0

#include "flags/command_line.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "loadtest/options.h"

namespace qgemm::loadtest {
namespace {

using flags::AddChoice;
using flags::AddOption;
using flags::AddSwitch;
using flags::AddText;

constexpr char kDescription[] =
    "Loads a qgemm server with Gemm requests and reports latency, throughput\n"
    "and wrong answers. Ctrl-C ends a run and reports what was measured.\n"
    "docs/load-testing.md teaches it.\n\n"
    "  qgemm_loadtest --server=127.0.0.1:50051 --synthetic=4096x14336\n"
    "      --concurrency=4 --duration=10s --verify=sample\n"
    "  qgemm_loadtest --server=unix:/run/qgemm.sock --walk=llama3-8b\n"
    "      --rate=2000 --slo=p99=2ms --json=report.json\n\n"
    "Exit codes: 0 passed; 1 requests failed; 2 wrong usage; 3 an --slo\n"
    "missed; 4 the generator late; 5 a wrong answer; 6 not started; 7 a\n"
    "report not written; 130 stopped by a signal.";

constexpr int kMaxLayers = 10000;
constexpr int kMaxParts = 64;

// A duration from `low` to a year.
void AddTime(CLI::App* app, const std::string& name, absl::Duration* value,
             absl::Duration low, const std::string& help) {
  const auto refusal = [low](std::string& text) {
    const absl::StatusOr<absl::Duration> time = flags::ParseDuration(text);
    if (!time.ok() || (*time >= low && *time <= absl::Hours(24 * 365))) {
      return std::string();  // AddDuration refuses other texts
    }
    return absl::StrCat(text, " must be at least ", absl::FormatDuration(low),
                        " and at most a year");
  };
  flags::AddDuration(app, name, value, help)
      ->check(CLI::Validator(refusal, ""));
}

// A number from `low` to `high`.
template <typename T>
void AddRanged(CLI::App* app, const std::string& name, T* value, T low, T high,
               const std::string& help) {
  AddOption(app, name, value, help)->check(CLI::Range(low, high));
}

// An option whose text `parse` turns into a value or an error.
template <typename T, typename Parse>
CLI::Option* AddParsed(CLI::App* app, const std::string& name, T* value,
                       Parse parse, const std::string& help) {
  return AddText(
      app, name,
      [value, parse](const std::string& text) {
        auto parsed = parse(text);
        if (!parsed.ok()) return parsed.status();
        *value = *std::move(parsed);
        return absl::OkStatus();
      },
      help);
}

absl::StatusOr<std::set<absl::StatusCode>> ParseCodes(absl::string_view text) {
  std::set<absl::StatusCode> codes;
  for (absl::string_view name : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int code = 1;
    while (code <= 16 && name != absl::StatusCodeToString(
                                     static_cast<absl::StatusCode>(code))) {
      ++code;
    }
    if (code > 16) {
      return absl::InvalidArgumentError(
          absl::StrCat("must be names of status codes, as in "
                       "RESOURCE_EXHAUSTED; ",
                       name, " is none"));
    }
    codes.insert(static_cast<absl::StatusCode>(code));
  }
  return codes;
}

void AddConnections(CLI::App* app, LoadtestOptions* options) {
  options->connection.AddTo(app);
  AddChoice(
      app, "transport", &options->transport,
      {{"call", TransportKind::kCall},
       {"stream", TransportKind::kStream},
       {"lane", TransportKind::kLane},
       {"null", TransportKind::kNull}},
      "call: a call a request; stream: requests pipelined over one "
      "GemmStream a connection; lane: by memory shared with a server on "
      "this host, of --server=unix:PATH; null: no server, every request is "
      "answered at once (the limit of the generator itself)");
  AddTime(app, "connect_timeout", &options->connect_timeout,
          absl::Milliseconds(1), "Time for the server to accept connections");
  AddRanged(
      app, "channels", &options->channels, 0, 256,
      "Connections to each server that the requests share; 0: one for each of "
      "--threads, or for each of their --parts");
  AddRanged(app, "threads", &options->senders, 0, 64,
            "Senders, each with a thread that sends and one that takes "
            "answers; 0: by the machine's size");
  AddTime(app, "lane_spin", &options->lane_spin, absl::ZeroDuration(),
          "Time that a thread looks for answers of a lane before it sleeps; "
          "more than many clients wait for one, with a core for each thread, "
          "shows what the server can do");
  AddSwitch(app, "device_operands", &options->device_operands,
            "Operands and answers of a lane lie on the first GPU, which is the "
            "server's (its --allow_device_operands), as far as they have room "
            "in 64 MiB a sender");
}

void AddLayers(CLI::App* app, LayerOptions* layers) {
  AddOption(app, "weights", &layers->names,
            "Names or ids of weights on the server. Answers to one input are "
            "compared with each other; fp64 needs --synthetic or --walk");
  AddOption(app, "synthetic", &layers->synthetic,
            "KxN,...: random weights of these shapes; see --setup");
  AddRanged(app, "layers", &layers->per_shape, 1, kMaxLayers,
            "Layers of each shape of --synthetic, each with its own bytes");
  AddOption(app, "walk", &layers->walk,
            absl::StrCat("Each client calls the layers of a model in order: ",
                         absl::StrJoin(KnownModels(), ", "),
                         " or a file (docs/load-testing.md)"));
  AddOption(app, "program_walk", &layers->program_walk,
            "The same by programs: each client makes a call a layer and one of "
            "the head, in order; or a file (docs/load-testing.md)");
  AddRanged(app, "walk_blocks", &layers->walk_blocks, 0, kMaxLayers,
            "First blocks of a walk to take; 0: all");
  AddOption(app, "format", &layers->formats,
            "Format of synthetic weights: kbit2, kbit3, kbit4, kbit5, q4_0, "
            "ternary, int4, int4-asymmetric, fp16 or bf16; several take turns "
            "over the layers");
  AddRanged(app, "zipf", &layers->zipf, 0.0, kMaxZipfExponent,
            "Exponent of the Zipf distribution of requests over layers; 0: in "
            "turn");
  AddSwitch(app, "setup", &layers->setup,
            "Upload synthetic weights first. --setup=false: use those left by "
            "a run with --teardown=false and the same flags");
  AddSwitch(app, "teardown", &layers->teardown,
            "Remove synthetic weights at the end");
}

void AddRequests(CLI::App* app, RequestOptions* request) {
  const std::vector<std::pair<std::string, FloatType>> types = {
      {"fp32", FloatType::kFloat32},
      {"fp16", FloatType::kFloat16},
      {"bf16", FloatType::kBFloat16}};
  AddParsed(app, "m", &request->m, ParseRowMix,
            "Rows of activations a request, or a mix: 1:0.9,16:0.1")
      ->default_str("1");
  AddRanged(app, "prefill_m", &request->prefill_m, int64_t{1}, kMaxExtent,
            "Rows of a request of --prefill_clients");
  AddRanged(app, "prefill_clients", &request->prefill_clients, 0,
            kMaxConcurrency,
            "Closed loops that send --prefill_m rows beside everything else, "
            "over their own connections");
  AddRanged(app, "parts", &request->parts, 1, kMaxParts,
            "Cuts the rows of a request into that many requests, in flight "
            "together on several connections; it has ended when all have");
  AddChoice(app, "dtype", &request->a_type, types,
            "Element type of the activations");
  AddChoice<std::optional<FloatType>>(app, "out_dtype", &request->c_type,
                                      {types.begin(), types.end()},
                                      "Element type of the results; default: "
                                      "--dtype");
  AddChoice(app, "mode", &request->mode,
            {{"A16", ComputeMode::kA16},
             {"A8", ComputeMode::kA8},
             {"A32", ComputeMode::kA32}},
            "Compute mode");
  AddChoice(app, "priority", &request->priority,
            {{"low", RequestPriority::kLow},
             {"normal", RequestPriority::kNormal},
             {"high", RequestPriority::kHigh}},
            "Priority among requests that wait at the server");
  AddOption(app, "client_id", &request->client_id,
            "First part of the clients' ids, for fairness at the server; each "
            "client has its own. Empty: one client a connection");
  AddRanged(app, "inputs", &request->inputs, 1, 4096,
            "Distinct activation matrices of each layer and number of rows");
}

// Ends of requests that are not answers.
void AddEnds(CLI::App* app, RequestOptions* request) {
  AddTime(app, "timeout", &request->timeout, absl::Microseconds(1),
          "A request without an answer after this is given up, and an "
          "error; to about 100 ms");
  AddTime(app, "deadline", &request->deadline, absl::ZeroDuration(),
          "Deadline of each request; misses are counted, and are no "
          "errors. 0: none");
  AddRanged(app, "cancel_rate", &request->disturbances.cancel_share, 0.0, 1.0,
            "Share of requests that are cancelled");
  AddTime(app, "cancel_within", &request->disturbances.cancel_within,
          absl::ZeroDuration(), "Longest time until a request is cancelled");
  AddOption(
      app, "disconnect_rate", &request->disturbances.disconnects_per_second,
      "Connections a second over a Unix socket that are cut without being "
      "closed")
      ->check(CLI::Range(0.0, 1000.0));
  AddParsed(app, "allow_errors", &request->allowed_errors, ParseCodes,
            "Status codes that do not fail the run, as in "
            "RESOURCE_EXHAUSTED,UNAVAILABLE");
}

void AddArrivals(CLI::App* app, ArrivalOptions* arrivals) {
  AddRanged(app, "concurrency", &arrivals->concurrency, 0, kMaxConcurrency,
            "Closed loop: clients, each with one request in flight. With "
            "--rate: the most requests in flight. 0: 1, with --rate 1024");
  AddTime(app, "think", &arrivals->think, absl::ZeroDuration(),
          "Pause of a closed loop's client between an answer and its next "
          "request");
  AddOption(app, "rate", &arrivals->rate_text,
            "Requests a second that arrive whether or not earlier ones were "
            "answered: 2000, steps 500:10s,1000:10s, ramps 100..5000:60s. "
            "Empty: closed loop");
  AddParsed(app, "arrivals", &arrivals->process, ParseArrivalProcess,
            "Scatter of arrivals around --rate: constant, poisson, gamma:CV or "
            "trace:FILE (a line an offset in seconds)")
      ->default_str("poisson");
  AddTime(app, "max_lag", &arrivals->max_lag, absl::Microseconds(1),
          "The run fails if the generator itself sends later than this at "
          "p99");
  AddTime(app, "duration", &arrivals->duration, absl::ZeroDuration(),
          "Time to measure, as in 10s or 500ms; 0: only --setup and "
          "--teardown");
  AddTime(app, "warmup", &arrivals->warmup, absl::ZeroDuration(),
          "Time to send before measuring");
}

void AddMeasurement(CLI::App* app, LoadtestOptions* options) {
  AddParsed(
      app, "churn", &options->churn.shape,
      [](const std::string& text) { return ParseShape(text, "churn"); },
      "KxN: upload and unload layers of that shape while measuring");
  AddRanged(app, "churn_rate", &options->churn.per_second, 0.001, 1000.0,
            "Uploads a second of --churn");
  AddSwitch(app, "baseline", &options->baseline,
            "First measure an echo of the same bytes, and report the part of "
            "a request's time that is neither transport nor device. The "
            "server needs --enable_echo");
  AddParsed(app, "sweep", &options->sweep, ParseSweep,
            "A run for each value: rate=100,200,400, concurrency=1..64/7 or "
            "m=1,16");
  AddSwitch(app, "find_peak", &options->find_peak,
            "Search the highest rate that holds --slo, from --rate on, and "
            "confirm it by a longer run");
  AddParsed(app, "slo", &options->slo, ParseSlo,
            "Bounds on latency from the intended start: p99=500us,p99.9=2ms");
  AddChoice(app, "verify", &options->verify,
            {{"none", VerifyMode::kNone},
             {"sample", VerifyMode::kSample},
             {"all", VerifyMode::kAll}},
            "Answers that are checked");
  AddOption(app, "seed", &options->seed,
            "Seed of weights, activations, arrivals and picks");
}

void AddOutput(CLI::App* app, OutputOptions* output) {
  AddOption(app, "json", &output->json,
            "File for the report; tools/render_report.py draws it, "
            "tools/compare_reports.py compares two");
  AddOption(app, "title", &output->title, "Title of the report");
  AddChoice<std::optional<bool>>(
      app, "live", &output->live,
      {{"auto", std::nullopt}, {"on", true}, {"off", false}},
      "A line on standard error that shows the run; auto: on a terminal");
}

}  // namespace

std::unique_ptr<CLI::App> MakeLoadtestApp(LoadtestOptions* options) {
  auto app = flags::MakeApp(kDescription, "qgemm_loadtest");
  AddConnections(app.get(), options);
  AddLayers(app.get(), &options->layers);
  AddRequests(app.get(), &options->request);
  AddEnds(app.get(), &options->request);
  AddArrivals(app.get(), &options->arrivals);
  AddMeasurement(app.get(), options);
  AddOutput(app.get(), &options->output);
  return app;
}

void DescribeFlags(const CLI::App& app, LoadtestReport* report) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string& name = option->get_lnames().front();
    if (name == "help" || name == "version" || name == "config" ||
        name == "completion") {
      continue;
    }
    std::string value = option->get_default_str();
    const std::string initial = value;
    if (option->count() > 0) value = absl::StrJoin(option->results(), ",");
    if (value != initial) report->changed_options.push_back(name);
    report->options.emplace_back(name, std::move(value));
  }
  std::sort(report->options.begin(), report->options.end());
  std::sort(report->changed_options.begin(), report->changed_options.end());
}

}  // namespace qgemm::loadtest
