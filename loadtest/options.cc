// SPDX-License-Identifier: Apache-2.0

#include "loadtest/options.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "loadtest/walk_programs.h"

namespace qgemm::loadtest {
namespace {

absl::Status Refuse(absl::string_view message) {
  return absl::InvalidArgumentError(message);
}

// `status` with the flag in front.
absl::Status OfFlag(absl::string_view flag, absl::string_view value,
                    const absl::Status& status) {
  if (status.ok()) return status;
  return Refuse(absl::StrCat("--", flag, "=", value, ": ", status.message()));
}

absl::Status CheckTransport(const LoadtestOptions& options) {
  RETURN_IF_ERROR(options.connection.Check());
  const std::string& server = options.connection.server;
  if (options.request.disturbances.disconnects_per_second > 0 &&
      (options.transport != TransportKind::kCall ||
       !absl::StartsWith(server, "unix:") || absl::StrContains(server, ','))) {
    return Refuse(
        "--disconnect_rate: needs --server=unix:PATH and "
        "--transport=call");
  }
  if (options.transport == TransportKind::kNull &&
      (!options.layers.is_synthetic() || options.churn.shape.has_value() ||
       options.baseline || options.verify != VerifyMode::kNone)) {
    return Refuse(
        "--transport=null has no server: it goes with --synthetic or a walk, "
        "and without --churn, --baseline and --verify");
  }
  if (options.transport == TransportKind::kStream &&
      options.request.parts > 1) {
    return Refuse(
        "--transport=stream sends whole requests: --parts goes with "
        "--transport=call");
  }
  const Disturbances& disturbances = options.request.disturbances;
  if (options.transport == TransportKind::kLane &&
      (!absl::StartsWith(server, "unix:") || absl::StrContains(server, ',') ||
       options.request.parts > 1 || disturbances.cancel_share > 0)) {
    return Refuse(
        "--transport=lane: needs --server=unix:PATH of one server; --parts and "
        "--cancel_rate go with --transport=call");
  }
  if (options.device_operands && options.transport != TransportKind::kLane) {
    return Refuse("--device_operands goes with --transport=lane");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ostringstream text;
  std::ifstream file(path, std::ios::binary);
  if (file) text << file.rdbuf();
  if (file) return text.str();
  return absl::NotFoundError(absl::StrCat("cannot read ", path));
}

absl::StatusOr<std::vector<LayerShape>> WalkShapes(const LayerOptions& layers) {
  auto known = ModelLayers(layers.walk, layers.walk_blocks);
  if (known.ok()) return known;
  const absl::StatusOr<std::string> text = ReadFile(layers.walk);
  if (text.ok()) return ParseModelFile(*text, layers.walk_blocks);
  return Refuse(absl::StrCat(
      "--walk=", layers.walk, ": must be ", absl::StrJoin(KnownModels(), ", "),
      " or a file of layers: ", text.status().message()));
}

absl::StatusOr<ModelShape> ProgramWalkModel(const LayerOptions& layers) {
  auto known = ModelShapeOf(layers.program_walk, layers.walk_blocks);
  if (known.ok()) return known;
  const absl::StatusOr<std::string> text = ReadFile(layers.program_walk);
  if (text.ok()) return ParseModelShape(*text, layers.walk_blocks);
  return Refuse(
      absl::StrCat("--program_walk=", layers.program_walk, ": must be ",
                   absl::StrJoin(KnownModels(), ", "),
                   " or a file of a model: ", text.status().message()));
}

absl::Status CompleteLayers(LayerOptions* layers) {
  if (int{!layers->names.empty()} + int{!layers->synthetic.empty()} +
          int{!layers->walk.empty()} + int{layers->has_programs()} !=
      1) {
    return Refuse(
        "give one of --weights=NAME, --synthetic=KxN, --walk=MODEL and "
        "--program_walk=MODEL");
  }
  if (layers->formats.empty()) return Refuse("--format: must name a format");
  if (layers->is_walk() && layers->zipf > 0) {
    return Refuse("--zipf and --walk: a walk calls the layers in order");
  }
  if (!layers->walk.empty()) {
    ASSIGN_OR_RETURN(layers->shapes, WalkShapes(*layers));
  }
  if (layers->has_programs()) {
    ASSIGN_OR_RETURN(layers->model, ProgramWalkModel(*layers));
    layers->shapes = WalkLayers(layers->model);
  }
  const int formats = static_cast<int>(layers->formats.size());
  for (const std::string& text : layers->synthetic) {
    for (int i = 0; i < std::max(layers->per_shape, formats); ++i) {
      auto shape = ParseShape(text, absl::StrCat(text, ".", i));
      RETURN_IF_ERROR(OfFlag("synthetic", text, shape.status()));
      layers->shapes.push_back(*std::move(shape));
    }
  }
  return absl::OkStatus();
}

// Requests of every number of rows have that many parts.
absl::Status CheckParts(const LoadtestOptions& options) {
  const int parts = options.request.parts;
  if (parts == 1) return absl::OkStatus();
  if (options.baseline) {
    return Refuse("--baseline and --parts: a baseline is of whole requests");
  }
  std::vector<int64_t> rows;
  for (const RowClass& each : options.request.m.classes()) {
    rows.push_back(each.rows);
  }
  if (options.request.prefill_clients > 0) {
    rows.push_back(options.request.prefill_m);
  }
  const int64_t fewest = *std::min_element(rows.begin(), rows.end());
  if (fewest >= parts) return absl::OkStatus();
  return Refuse(absl::StrCat("--parts=", parts, ": a request of ", fewest,
                             " rows has not that many parts"));
}

// The rows of a program's values have the types that its declaration names.
absl::Status CheckPrograms(const LoadtestOptions& options) {
  const RequestOptions& request = options.request;
  if (options.layers.has_programs() &&
      (request.a_type == FloatType::kFloat32 || request.c_type.has_value() ||
       request.mode != ComputeMode::kA16)) {
    return Refuse(
        "--program_walk: its rows are bf16 and its products A16; --dtype, "
        "--out_dtype and --mode are of Gemms");
  }
  return CheckParts(options);
}

absl::Status ReadTrace(ArrivalOptions* arrivals) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(arrivals->process.trace_path));
  ASSIGN_OR_RETURN(ArrivalTrace trace, ParseArrivalTrace(text));
  if (!arrivals->rate_text.empty()) {
    double rate = 0;
    if (!absl::SimpleAtod(arrivals->rate_text, &rate) || !(rate >= kMinRate) ||
        rate > kMaxRate || trace.mean_rate() == 0) {
      return Refuse(absl::StrCat(
          "--rate=", arrivals->rate_text,
          ": must be one number beside a trace, which it scales; the trace "
          "must have an offset above 0"));
    }
    arrivals->trace_scale = trace.mean_rate() / rate;
  }
  arrivals->trace = std::make_shared<const ArrivalTrace>(std::move(trace));
  return absl::OkStatus();
}

absl::Status CompleteArrivals(ArrivalOptions* arrivals) {
  if (arrivals->process.kind == ArrivalKind::kTrace) {
    RETURN_IF_ERROR(ReadTrace(arrivals));
  } else if (!arrivals->rate_text.empty()) {
    auto rate = ParseRateProfile(arrivals->rate_text);
    RETURN_IF_ERROR(OfFlag("rate", arrivals->rate_text, rate.status()));
    arrivals->rate = *std::move(rate);
  }
  if (arrivals->is_open() && arrivals->think > absl::ZeroDuration()) {
    return Refuse("--think and --rate: open arrivals do not wait for answers");
  }
  if (arrivals->concurrency == 0) {
    arrivals->concurrency = arrivals->is_open() ? kOpenInFlight : 1;
  }
  return absl::OkStatus();
}

bool SearchesRates(const LoadtestOptions& options) {
  return options.find_peak || (!options.sweep.values.empty() &&
                               options.sweep.flag == SweptFlag::kRate);
}

absl::Status CheckSearch(const LoadtestOptions& options) {
  for (size_t i = 0; i < options.sweep.values.size(); ++i) {
    RETURN_IF_ERROR(SweepPoint(options, i).status());
  }
  if (SearchesRates(options) &&
      (options.arrivals.trace != nullptr ||
       options.arrivals.think > absl::ZeroDuration())) {
    return Refuse(absl::StrCat(
        options.find_peak ? "--find_peak" : "--sweep=rate",
        " sets rates of a process: it goes without a trace and --think"));
  }
  if (options.find_peak && options.slo.empty()) {
    return Refuse("--find_peak needs --slo, as in --slo=p99=500us");
  }
  if (options.find_peak && !options.sweep.values.empty()) {
    return Refuse("--find_peak and --sweep: give one");
  }
  return absl::OkStatus();
}

// Most senders that find work: each has a closed loop, or an arrival in
// flight.
int MostSenders(const LoadtestOptions& options) {
  if (SearchesRates(options)) {
    return AtRate(options, RateProfile::Constant(1)).arrivals.concurrency;
  }
  int most = options.arrivals.concurrency;
  for (size_t i = 0; i < options.sweep.values.size(); ++i) {
    most = std::max(most, SweepPoint(options, i)->arrivals.concurrency);
  }
  return most;
}

void CompleteConnections(int cpus, LoadtestOptions* options) {
  // A sender a quarter of the machine's threads: the server is often on it
  // too.
  if (options->senders == 0) options->senders = std::clamp(cpus / 4, 1, 8);
  options->senders = std::min(options->senders, MostSenders(*options));
  const int wanted = options->channels > 0
                         ? std::max(options->channels, options->senders)
                         : options->senders * options->request.parts;
  options->channels =
      (wanted + options->senders - 1) / options->senders * options->senders;
}

}  // namespace

std::string LayerOptions::text() const {
  return absl::StrCat(absl::StrJoin(names, ","), absl::StrJoin(synthetic, ","),
                      walk, program_walk);
}

LoadtestOptions AtRate(LoadtestOptions options, RateProfile rate) {
  ArrivalOptions& arrivals = options.arrivals;
  if (!arrivals.is_open() && arrivals.concurrency == 1) {
    arrivals.concurrency = kOpenInFlight;
  }
  arrivals.rate = std::move(rate);
  return options;
}

absl::StatusOr<LoadtestOptions> SweepPoint(const LoadtestOptions& options,
                                           size_t point) {
  const std::string& value = options.sweep.values[point];
  const auto refusal = [&](const absl::Status& status) {
    return OfFlag("sweep", options.sweep.Label(point), status);
  };
  LoadtestOptions swept = options;
  switch (options.sweep.flag) {
    case SweptFlag::kRate: {
      auto rate = ParseRateProfile(value);
      RETURN_IF_ERROR(refusal(rate.status()));
      return AtRate(std::move(swept), *std::move(rate));
    }
    case SweptFlag::kM: {
      auto m = ParseRowMix(value);
      RETURN_IF_ERROR(refusal(m.status()));
      swept.request.m = *std::move(m);
      RETURN_IF_ERROR(refusal(CheckParts(swept)));
      return swept;
    }
    case SweptFlag::kConcurrency:
      break;
  }
  int& concurrency = swept.arrivals.concurrency;
  if (!absl::SimpleAtoi(value, &concurrency) || concurrency < 1 ||
      concurrency > kMaxConcurrency) {
    return refusal(
        Refuse(absl::StrCat("concurrency must be 1 to ", kMaxConcurrency)));
  }
  swept.senders = std::min(swept.senders, concurrency);
  return swept;
}

absl::Status CompleteOptions(int cpus, LoadtestOptions* options) {
  RETURN_IF_ERROR(CompleteLayers(&options->layers));
  RETURN_IF_ERROR(CheckTransport(*options));
  RETURN_IF_ERROR(CheckPrograms(*options));
  RETURN_IF_ERROR(CompleteArrivals(&options->arrivals));
  RETURN_IF_ERROR(CheckSearch(*options));
  CompleteConnections(cpus, options);
  if (options->request.deadline == absl::ZeroDuration()) {
    options->request.deadline = absl::InfiniteDuration();
  }
  return absl::OkStatus();
}

}  // namespace qgemm::loadtest
