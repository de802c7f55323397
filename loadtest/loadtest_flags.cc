// SPDX-License-Identifier: Apache-2.0
//
// Abseil flags into LoadtestFlags.

#include "loadtest/loadtest_flags.h"

#include <algorithm>
#include <cstdint>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

ABSL_FLAG(std::string, server, qgemm::LoadtestFlags().server,
          "Server to load: host:port or unix:path.");
ABSL_FLAG(std::string, transport, qgemm::LoadtestFlags().transport,
          "auto, tcp, unix: how the server is reached, a call a request; "
          "stream: the same, but requests are pipelined over one GemmStream a "
          "connection; null: no server at all, every request is answered at "
          "once (what the generator itself can do).");
ABSL_FLAG(absl::Duration, connect_timeout,
          qgemm::LoadtestFlags().connect_timeout,
          "How long to wait for the server to accept connections.");
ABSL_FLAG(int, channels, qgemm::LoadtestFlags().channels,
          "Connections that the requests share. 0: one for each of --threads.");
ABSL_FLAG(int, threads, qgemm::LoadtestFlags().threads,
          "Lanes, each with a thread that sends and one that takes answers. "
          "0: by the machine's size.");
ABSL_FLAG(std::string, weights, qgemm::LoadtestFlags().weights,
          "Names or ids of weights on the server, separated by commas. "
          "Answers to one input are then compared with each other; fp64 needs "
          "--synthetic or --walk.");
ABSL_FLAG(std::string, synthetic, qgemm::LoadtestFlags().synthetic,
          "KxN: random weights of that shape, or of several separated by "
          "commas; see --setup.");
ABSL_FLAG(int, layers, qgemm::LoadtestFlags().layers,
          "Layers of each shape of --synthetic, each with bytes of its own.");
ABSL_FLAG(std::string, walk, qgemm::LoadtestFlags().walk,
          "Each client calls the layers of a model in order: llama3-8b, "
          "llama3-70b, llama2-7b, qwen2.5-7b or a file (docs/load- "
          "testing.md).");
ABSL_FLAG(int, walk_blocks, qgemm::LoadtestFlags().walk_blocks,
          "Only the first so many blocks of --walk. 0: all.");
ABSL_FLAG(std::string, format, qgemm::LoadtestFlags().format,
          "Format of synthetic weights: kbit2, kbit3, kbit4, kbit5, q4_0, "
          "ternary, int4, int4-asymmetric, fp16 or bf16; several separated by "
          "commas take turns over the layers.");
ABSL_FLAG(double, zipf, qgemm::LoadtestFlags().zipf,
          "Exponent of how unevenly requests take the layers, the first the "
          "most. 0: in turn.");
ABSL_FLAG(bool, setup, qgemm::LoadtestFlags().setup,
          "Upload synthetic weights first. --nosetup: they are there, left by "
          "a run with --noteardown and the same flags.");
ABSL_FLAG(bool, teardown, qgemm::LoadtestFlags().teardown,
          "Remove synthetic weights at the end.");
ABSL_FLAG(std::string, m, qgemm::LoadtestFlags().m,
          "Rows of activations a request, or a mix: 1:0.9,16:0.1.");
ABSL_FLAG(int64_t, prefill_m, qgemm::LoadtestFlags().prefill_m,
          "Rows of a request of --prefill_clients.");
ABSL_FLAG(
    int, prefill_clients, qgemm::LoadtestFlags().prefill_clients,
    "Closed loops that send --prefill_m rows beside everything else, over "
    "connections of their own.");
ABSL_FLAG(std::string, dtype, qgemm::LoadtestFlags().dtype,
          "Element type of the activations: fp32, fp16 or bf16.");
ABSL_FLAG(std::string, out_dtype, qgemm::LoadtestFlags().out_dtype,
          "Element type of the results; default: --dtype.");
ABSL_FLAG(std::string, mode, qgemm::LoadtestFlags().mode,
          "Compute mode: A16, A8 or A32.");
ABSL_FLAG(std::string, priority, qgemm::LoadtestFlags().priority,
          "Who goes first among requests that wait at the server: low, normal "
          "or high.");
ABSL_FLAG(std::string, client_id, qgemm::LoadtestFlags().client_id,
          "How the ids begin by which the server tells virtual clients apart, "
          "each of which has its own. Empty: all of a connection are one.");
ABSL_FLAG(int, inputs, qgemm::LoadtestFlags().inputs,
          "Distinct activation matrices of each layer and number of rows.");
ABSL_FLAG(int, concurrency, qgemm::LoadtestFlags().concurrency,
          "Closed loop: clients, each with one request in flight. With "
          "--rate: the most requests in flight. 0: 1, with --rate 1024.");
ABSL_FLAG(absl::Duration, think, qgemm::LoadtestFlags().think,
          "What a closed loop's client waits between an answer and its next "
          "request.");
ABSL_FLAG(std::string, rate, qgemm::LoadtestFlags().rate,
          "Requests a second that arrive whether or not earlier ones were "
          "answered: 2000, steps 500:10s,1000:10s, ramps 100..5000:60s. "
          "Empty: closed loop.");
ABSL_FLAG(std::string, arrivals, qgemm::LoadtestFlags().arrivals,
          "How arrivals scatter around --rate: constant, poisson, gamma:CV or "
          "trace:FILE (a line an offset in seconds).");
ABSL_FLAG(absl::Duration, max_lag, qgemm::LoadtestFlags().max_lag,
          "The run fails if the generator itself sends later than this at "
          "p99.");
ABSL_FLAG(absl::Duration, duration, qgemm::LoadtestFlags().duration,
          "How long to measure, as in 10s or 500ms. 0: only --setup and "
          "--teardown.");
ABSL_FLAG(absl::Duration, warmup, qgemm::LoadtestFlags().warmup,
          "How long to send before measuring.");
ABSL_FLAG(absl::Duration, timeout, qgemm::LoadtestFlags().timeout,
          "A request without an answer by then is given up, and an error; to "
          "about 100 ms.");
ABSL_FLAG(absl::Duration, deadline, qgemm::LoadtestFlags().deadline,
          "Deadline of each request; those that miss it are counted, and are "
          "no errors. 0: none.");
ABSL_FLAG(double, cancel_rate, qgemm::LoadtestFlags().cancel_rate,
          "Share of requests that are cancelled, 0 to 1.");
ABSL_FLAG(absl::Duration, cancel_within, qgemm::LoadtestFlags().cancel_within,
          "After at most how long.");
ABSL_FLAG(double, disconnect_rate, qgemm::LoadtestFlags().disconnect_rate,
          "Connections that are cut without a goodbye, a second.");
ABSL_FLAG(std::string, churn, qgemm::LoadtestFlags().churn,
          "KxN: upload and unload layers of that shape while measuring.");
ABSL_FLAG(double, churn_rate, qgemm::LoadtestFlags().churn_rate,
          "Such uploads a second.");
ABSL_FLAG(std::string, allow_errors, qgemm::LoadtestFlags().allow_errors,
          "Status codes that do not fail the run, as in "
          "RESOURCE_EXHAUSTED,UNAVAILABLE.");
ABSL_FLAG(bool, yardstick, qgemm::LoadtestFlags().yardstick,
          "First measure an echo of the same bytes, and say what of a "
          "request's time is neither transport nor device. The server needs "
          "--enable_echo.");
ABSL_FLAG(std::string, sweep, qgemm::LoadtestFlags().sweep,
          "A run for each value: rate=100,200,400, concurrency=1..64/7 or "
          "m=1,16.");
ABSL_FLAG(bool, find_peak, qgemm::LoadtestFlags().find_peak,
          "Search the highest rate that holds --slo, from --rate on, and "
          "confirm it by a longer run.");
ABSL_FLAG(std::string, slo, qgemm::LoadtestFlags().slo,
          "Bounds on latency from the intended start: p99=500us,p99.9=2ms.");
ABSL_FLAG(std::string, verify, qgemm::LoadtestFlags().verify,
          "none; sample: some answers; all: every answer.");
ABSL_FLAG(uint64_t, seed, qgemm::LoadtestFlags().seed,
          "Seed of weights, activations, arrivals and picks.");
ABSL_FLAG(std::string, json, qgemm::LoadtestFlags().json,
          "Write the report to this file; tools/render_report.py draws it, "
          "tools/compare_reports.py compares two.");
ABSL_FLAG(std::string, hgrm, qgemm::LoadtestFlags().hgrm,
          "Write the latency percentiles to this file, as HdrHistogram's "
          "plotter reads them.");
ABSL_FLAG(std::string, title, qgemm::LoadtestFlags().title,
          "Title of the report.");
ABSL_FLAG(std::string, live, qgemm::LoadtestFlags().live,
          "A line that shows the run on standard error: auto (on a terminal), "
          "on or off.");

namespace qgemm {
namespace {

constexpr char kUsage[] =
    "Loads a qgemm server with Gemm requests and reports latency, throughput\n"
    "and whether the answers are right. Ctrl-C ends a run and reports what "
    "was\n"
    "measured. docs/load-testing.md teaches it.\n\n"
    "  qgemm_loadtest --server=127.0.0.1:50051 --synthetic=4096x14336\n"
    "      --concurrency=4 --duration=10s --verify=sample\n"
    "  qgemm_loadtest --server=unix:/run/qgemm.sock --walk=llama3-8b\n"
    "      --rate=2000 --slo=p99=2ms --json=report.json\n"
    "\n"
    "Exit codes: 0 passed; 1 requests failed; 2 wrong usage; 3 an --slo\n"
    "missed; 4 the generator late; 5 a wrong answer; 6 not started; 7 a "
    "report\n"
    "not written; 130 stopped by a signal.";

bool IsOurs(absl::string_view file) {
  return absl::StrContains(file, "loadtest");
}

// Prints the help that `argument` asks for. Abseil would look for flags in a
// file named after the program.
void ShowHelp(char* program, char* argument) {
  absl::SetProgramUsageMessage(kUsage);
  absl::FlagsUsageConfig config;
  config.contains_help_flags = IsOurs;
  config.contains_helpshort_flags = IsOurs;
  absl::SetFlagsUsageConfig(config);
  char* argv[] = {program, argument, nullptr};
  absl::ParseCommandLine(2, argv);  // does not return
}

// One argument of the command line.
struct Argument {
  absl::CommandLineFlag* flag = nullptr;
  absl::string_view value;
  bool needs_next = false;  // the value is the next argument
};

absl::StatusOr<Argument> ReadArgument(absl::string_view text) {
  absl::string_view name = text;
  if (!absl::ConsumePrefix(&name, "--")) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected argument ", text));
  }
  Argument argument;
  const size_t equals = name.find('=');
  argument.flag = absl::FindCommandLineFlag(name.substr(0, equals));
  if (equals != absl::string_view::npos) {
    argument.value = name.substr(equals + 1);
  } else if (argument.flag != nullptr) {
    argument.needs_next = !argument.flag->IsOfType<bool>();
    argument.value = "true";
  } else if (absl::ConsumePrefix(&name, "no")) {
    argument.flag = absl::FindCommandLineFlag(name);
    argument.value = "false";
    if (argument.flag != nullptr && !argument.flag->IsOfType<bool>()) {
      argument.flag = nullptr;
    }
  }
  if (argument.flag == nullptr || !IsOurs(argument.flag->Filename())) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown flag ", text, "; --help lists all"));
  }
  return argument;
}

// Abseil's own parser ends the process with 1 at a mistake; that code means a
// failed run here.
absl::Status ParseArguments(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    ASSIGN_OR_RETURN(Argument argument, ReadArgument(argv[i]));
    if (argument.needs_next) {
      if (i + 1 == argc) {
        return absl::InvalidArgumentError(
            absl::StrCat(argv[i], " needs a value"));
      }
      argument.value = argv[++i];
    }
    std::string error;
    if (!argument.flag->ParseFrom(argument.value, &error)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", argument.flag->Name(), "=", argument.value, ": ", error));
    }
  }
  return absl::OkStatus();
}

LoadtestFlags GetFlags() {
  LoadtestFlags flags;
  flags.server = absl::GetFlag(FLAGS_server);
  flags.transport = absl::GetFlag(FLAGS_transport);
  flags.connect_timeout = absl::GetFlag(FLAGS_connect_timeout);
  flags.channels = absl::GetFlag(FLAGS_channels);
  flags.threads = absl::GetFlag(FLAGS_threads);
  flags.weights = absl::GetFlag(FLAGS_weights);
  flags.synthetic = absl::GetFlag(FLAGS_synthetic);
  flags.layers = absl::GetFlag(FLAGS_layers);
  flags.walk = absl::GetFlag(FLAGS_walk);
  flags.walk_blocks = absl::GetFlag(FLAGS_walk_blocks);
  flags.format = absl::GetFlag(FLAGS_format);
  flags.zipf = absl::GetFlag(FLAGS_zipf);
  flags.setup = absl::GetFlag(FLAGS_setup);
  flags.teardown = absl::GetFlag(FLAGS_teardown);
  flags.m = absl::GetFlag(FLAGS_m);
  flags.prefill_m = absl::GetFlag(FLAGS_prefill_m);
  flags.prefill_clients = absl::GetFlag(FLAGS_prefill_clients);
  flags.dtype = absl::GetFlag(FLAGS_dtype);
  flags.out_dtype = absl::GetFlag(FLAGS_out_dtype);
  flags.mode = absl::GetFlag(FLAGS_mode);
  flags.priority = absl::GetFlag(FLAGS_priority);
  flags.client_id = absl::GetFlag(FLAGS_client_id);
  flags.inputs = absl::GetFlag(FLAGS_inputs);
  flags.concurrency = absl::GetFlag(FLAGS_concurrency);
  flags.think = absl::GetFlag(FLAGS_think);
  flags.rate = absl::GetFlag(FLAGS_rate);
  flags.arrivals = absl::GetFlag(FLAGS_arrivals);
  flags.max_lag = absl::GetFlag(FLAGS_max_lag);
  flags.duration = absl::GetFlag(FLAGS_duration);
  flags.warmup = absl::GetFlag(FLAGS_warmup);
  flags.timeout = absl::GetFlag(FLAGS_timeout);
  flags.deadline = absl::GetFlag(FLAGS_deadline);
  flags.cancel_rate = absl::GetFlag(FLAGS_cancel_rate);
  flags.cancel_within = absl::GetFlag(FLAGS_cancel_within);
  flags.disconnect_rate = absl::GetFlag(FLAGS_disconnect_rate);
  flags.churn = absl::GetFlag(FLAGS_churn);
  flags.churn_rate = absl::GetFlag(FLAGS_churn_rate);
  flags.allow_errors = absl::GetFlag(FLAGS_allow_errors);
  flags.yardstick = absl::GetFlag(FLAGS_yardstick);
  flags.sweep = absl::GetFlag(FLAGS_sweep);
  flags.find_peak = absl::GetFlag(FLAGS_find_peak);
  flags.slo = absl::GetFlag(FLAGS_slo);
  flags.verify = absl::GetFlag(FLAGS_verify);
  flags.seed = absl::GetFlag(FLAGS_seed);
  flags.json = absl::GetFlag(FLAGS_json);
  flags.hgrm = absl::GetFlag(FLAGS_hgrm);
  flags.title = absl::GetFlag(FLAGS_title);
  flags.live = absl::GetFlag(FLAGS_live);
  return flags;
}

}  // namespace

absl::StatusOr<LoadtestFlags> ReadLoadtestFlags(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (absl::StartsWith(argv[i], "--help")) ShowHelp(argv[0], argv[i]);
  }
  RETURN_IF_ERROR(ParseArguments(argc, argv));
  return GetFlags();
}

std::vector<std::pair<std::string, std::string>> FlagValues() {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (!IsOurs(flag->Filename())) continue;
    values.emplace_back(name, flag->CurrentValue());
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace qgemm
