// SPDX-License-Identifier: Apache-2.0
//
// Parsing and range checks of the load test's flags.

#include "loadtest/options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "loadtest/flag_checks.h"
#include "loadtest/layer_options.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 20;
constexpr int kMaxConcurrency = 1 << 16;
constexpr int kMaxChannels = 256;
constexpr int kMaxThreads = 64;
constexpr int kMaxInputs = 4096;

absl::StatusOr<FloatType> ParseFloatType(absl::string_view flag,
                                         absl::string_view text) {
  for (FloatType type :
       {FloatType::kFloat32, FloatType::kFloat16, FloatType::kBFloat16}) {
    if (text == Name(type)) return type;
  }
  return BadFlag(flag, text, "fp32, fp16 or bf16");
}

absl::StatusOr<ComputeMode> ParseMode(absl::string_view text) {
  for (ComputeMode mode :
       {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
    if (absl::AsciiStrToUpper(text) == Name(mode)) return mode;
  }
  return BadFlag("mode", text, "A16, A8 or A32");
}

absl::StatusOr<VerifyMode> ParseVerify(absl::string_view text) {
  for (VerifyMode mode :
       {VerifyMode::kNone, VerifyMode::kSample, VerifyMode::kAll}) {
    if (text == Name(mode)) return mode;
  }
  return BadFlag("verify", text, "none, sample or all");
}

absl::StatusOr<TransportKind> ParseTransport(const LoadtestFlags& flags) {
  if (flags.server.empty()) {
    return BadFlag("server", "", "host:port or unix:path");
  }
  const TransportKind of_server = absl::StartsWith(flags.server, "unix:")
                                      ? TransportKind::kUnix
                                      : TransportKind::kTcp;
  if (flags.transport == "auto") return of_server;
  if (flags.transport == Name(TransportKind::kNull)) {
    return TransportKind::kNull;
  }
  if (flags.transport == Name(TransportKind::kStream)) {
    return TransportKind::kStream;
  }
  if (flags.transport == Name(of_server)) return of_server;
  if (flags.transport == "tcp" || flags.transport == "unix") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--transport=", flags.transport, ": --server=", flags.server,
        " is reached by ", Name(of_server)));
  }
  return BadFlag("transport", flags.transport,
                 "auto, tcp, unix, stream or null");
}

absl::StatusOr<std::set<absl::StatusCode>> ParseCodes(absl::string_view text) {
  std::set<absl::StatusCode> codes;
  for (absl::string_view name : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    bool known = false;
    for (int i = 1; i <= 16; ++i) {
      const auto code = static_cast<absl::StatusCode>(i);
      if (name != absl::StatusCodeToString(code)) continue;
      codes.insert(code);
      known = true;
    }
    if (!known) {
      return BadFlag("allow_errors", name,
                     "names of status codes, as in RESOURCE_EXHAUSTED");
    }
  }
  return codes;
}

absl::Status CheckDisturbances(const LoadtestFlags& flags) {
  RETURN_IF_ERROR(CheckNumber("cancel_rate", flags.cancel_rate, 1));
  RETURN_IF_ERROR(
      CheckTime("cancel_within", flags.cancel_within, absl::ZeroDuration()));
  RETURN_IF_ERROR(CheckNumber("disconnect_rate", flags.disconnect_rate, 1000));
  RETURN_IF_ERROR(CheckTime("timeout", flags.timeout, absl::Microseconds(1)));
  return CheckTime("deadline", flags.deadline, absl::ZeroDuration());
}

absl::StatusOr<RequestOptions> ParseRequest(const LoadtestFlags& flags) {
  RETURN_IF_ERROR(CheckDisturbances(flags));
  RETURN_IF_ERROR(CheckRange("inputs", flags.inputs, 1, kMaxInputs));
  RETURN_IF_ERROR(CheckRange("prefill_m", flags.prefill_m, 1, kMaxExtent));
  RETURN_IF_ERROR(
      CheckRange("prefill_clients", flags.prefill_clients, 0, kMaxConcurrency));
  RequestOptions request;
  ASSIGN_OR_RETURN(request.m, ParseRowMix(flags.m));
  request.prefill_m = flags.prefill_m;
  request.prefill_clients = flags.prefill_clients;
  ASSIGN_OR_RETURN(request.a_type, ParseFloatType("dtype", flags.dtype));
  request.c_type = request.a_type;
  if (!flags.out_dtype.empty()) {
    ASSIGN_OR_RETURN(request.c_type,
                     ParseFloatType("out_dtype", flags.out_dtype));
  }
  ASSIGN_OR_RETURN(request.mode, ParseMode(flags.mode));
  const auto priority = ParsePriority(flags.priority);
  if (!priority.has_value()) {
    return BadFlag("priority", flags.priority, "low, normal or high");
  }
  request.priority = *priority;
  request.client_id = flags.client_id;
  request.inputs = flags.inputs;
  request.timeout = flags.timeout;
  request.deadline = flags.deadline > absl::ZeroDuration()
                         ? flags.deadline
                         : absl::InfiniteDuration();
  request.disturbances.cancel_share = flags.cancel_rate;
  request.disturbances.cancel_within = flags.cancel_within;
  request.disturbances.disconnects_per_second = flags.disconnect_rate;
  ASSIGN_OR_RETURN(request.allowed_errors, ParseCodes(flags.allow_errors));
  return request;
}

absl::Status ReadTrace(const LoadtestFlags& flags, const LoadtestHost& host,
                       ArrivalOptions* arrivals) {
  ASSIGN_OR_RETURN(const std::string text,
                   host.read_file(arrivals->process.trace_path));
  ASSIGN_OR_RETURN(ArrivalTrace trace, ParseArrivalTrace(text));
  if (!flags.rate.empty()) {
    double rate = 0;
    if (!absl::SimpleAtod(flags.rate, &rate) || !(rate >= kMinRate) ||
        rate > kMaxRate) {
      return BadFlag("rate", flags.rate,
                     "one number beside a trace, which it scales");
    }
    ASSIGN_OR_RETURN(arrivals->trace_scale, TimeScaleFor(trace, rate));
  }
  arrivals->trace = std::make_shared<const ArrivalTrace>(std::move(trace));
  return absl::OkStatus();
}

absl::Status CheckArrivalTimes(const LoadtestFlags& flags) {
  const absl::Duration zero = absl::ZeroDuration();
  RETURN_IF_ERROR(CheckTime("duration", flags.duration, zero));
  RETURN_IF_ERROR(CheckTime("warmup", flags.warmup, zero));
  RETURN_IF_ERROR(CheckTime("think", flags.think, zero));
  return CheckTime("max_lag", flags.max_lag, absl::Microseconds(1));
}

absl::StatusOr<ArrivalOptions> ParseArrivals(const LoadtestFlags& flags,
                                             const LoadtestHost& host) {
  RETURN_IF_ERROR(CheckArrivalTimes(flags));
  RETURN_IF_ERROR(
      CheckRange("concurrency", flags.concurrency, 0, kMaxConcurrency));
  ArrivalOptions arrivals;
  ASSIGN_OR_RETURN(arrivals.process, ParseArrivalProcess(flags.arrivals));
  if (arrivals.process.kind == ArrivalKind::kTrace) {
    RETURN_IF_ERROR(ReadTrace(flags, host, &arrivals));
  } else if (!flags.rate.empty()) {
    ASSIGN_OR_RETURN(arrivals.rate, ParseRateProfile(flags.rate));
  }
  if (arrivals.is_open() && flags.think > absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "--think and --rate: open arrivals do not wait for answers");
  }
  arrivals.concurrency = flags.concurrency > 0 ? flags.concurrency
                         : arrivals.is_open()  ? kOpenInFlight
                                               : 1;
  arrivals.think = flags.think;
  arrivals.max_lag = flags.max_lag;
  arrivals.warmup = flags.warmup;
  arrivals.duration = flags.duration;
  return arrivals;
}

// Without a server there is nothing to upload to, to echo or to check.
absl::Status CheckNullTransport(const LoadtestFlags& flags,
                                const LoadtestOptions& options) {
  if (options.transport != TransportKind::kNull) return absl::OkStatus();
  if (options.layers.is_synthetic() && flags.churn.empty() &&
      !flags.yardstick && options.verify == VerifyMode::kNone) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--transport=null has no server: it goes with --synthetic or --walk, and "
      "without --churn, --yardstick and --verify");
}

absl::Status CheckStreamTransport(const LoadtestOptions& options) {
  if (options.transport != TransportKind::kStream ||
      options.request.disturbances.disconnects_per_second == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--transport=stream goes without --disconnect_rate: a stream that has "
      "ended stays so");
}

absl::StatusOr<ChurnOptions> ParseChurn(const LoadtestFlags& flags) {
  ChurnOptions churn;
  if (flags.churn.empty()) return churn;
  ASSIGN_OR_RETURN(const SyntheticShape shape,
                   ParseShape("churn", flags.churn));
  churn.shape = LayerShape{"churn", shape.k, shape.n};
  churn.per_second = flags.churn_rate;
  RETURN_IF_ERROR(CheckNumber("churn_rate", flags.churn_rate, 1000));
  if (flags.churn_rate == 0) {
    return BadFlag("churn_rate", "0", "above 0 and at most 1000");
  }
  return churn;
}

bool Sweeps(const LoadtestOptions& options, SweptFlag flag) {
  return !options.sweep.values.empty() && options.sweep.flag == flag;
}

bool SearchesRates(const LoadtestOptions& options) {
  return options.find_peak || Sweeps(options, SweptFlag::kRate);
}

absl::Status CheckSweptValue(SweptFlag flag, absl::string_view value) {
  switch (flag) {
    case SweptFlag::kRate:
      return ParseRateProfile(value).status();
    case SweptFlag::kM:
      return ParseRowMix(value).status();
    case SweptFlag::kConcurrency:
      break;
  }
  int concurrency = 0;
  if (!absl::SimpleAtoi(value, &concurrency)) {
    return BadFlag("concurrency", value, "a whole number");
  }
  return CheckRange("concurrency", concurrency, 1, kMaxConcurrency);
}

absl::Status CheckSweep(const Sweep& sweep) {
  for (size_t i = 0; i < sweep.values.size(); ++i) {
    const absl::Status status = CheckSweptValue(sweep.flag, sweep.values[i]);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--sweep=", sweep.Label(i), ": ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckRateSearch(const LoadtestOptions& options) {
  const absl::string_view flag =
      options.find_peak ? "--find_peak" : "--sweep=rate";
  if (options.arrivals.trace != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " and a trace: it sets rates of a process"));
  }
  if (options.arrivals.think > absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " and --think: open arrivals do not wait for answers"));
  }
  return absl::OkStatus();
}

absl::Status ParseSearch(const LoadtestFlags& flags, LoadtestOptions* options) {
  ASSIGN_OR_RETURN(options->sweep, ParseSweep(flags.sweep));
  ASSIGN_OR_RETURN(options->slo, ParseSlo(flags.slo));
  options->find_peak = flags.find_peak;
  RETURN_IF_ERROR(CheckSweep(options->sweep));
  if (SearchesRates(*options)) RETURN_IF_ERROR(CheckRateSearch(*options));
  if (!flags.find_peak) return absl::OkStatus();
  if (options->slo.empty()) {
    return absl::InvalidArgumentError(
        "--find_peak needs --slo, as in --slo=p99=500us");
  }
  if (!options->sweep.values.empty()) {
    return absl::InvalidArgumentError("--find_peak and --sweep: give one");
  }
  return absl::OkStatus();
}

absl::StatusOr<OutputOptions> ParseOutput(const LoadtestFlags& flags,
                                          const LoadtestHost& host) {
  OutputOptions output;
  output.json = flags.json;
  output.hgrm = flags.hgrm;
  output.title = flags.title;
  if (flags.live != "auto" && flags.live != "on" && flags.live != "off") {
    return BadFlag("live", flags.live, "auto, on or off");
  }
  output.live = flags.live == "on" || (flags.live == "auto" && host.terminal);
  return output;
}

// How many lanes find work: each has a closed loop, or an arrival in flight.
int MostLanes(const LoadtestOptions& options) {
  const ArrivalOptions& arrivals = options.arrivals;
  const bool becomes_open = SearchesRates(options) && !arrivals.is_open();
  if (becomes_open && arrivals.concurrency == 1) return kOpenInFlight;
  int most = arrivals.concurrency;
  if (Sweeps(options, SweptFlag::kConcurrency)) {
    for (const std::string& value : options.sweep.values) {
      int concurrency = 0;
      if (absl::SimpleAtoi(value, &concurrency)) {
        most = std::max(most, concurrency);
      }
    }
  }
  return most;
}

absl::Status ParseConnections(const LoadtestFlags& flags,
                              const LoadtestHost& host,
                              LoadtestOptions* options) {
  RETURN_IF_ERROR(CheckTime("connect_timeout", flags.connect_timeout,
                            absl::Milliseconds(1)));
  options->connect_timeout = flags.connect_timeout;
  RETURN_IF_ERROR(CheckRange("channels", flags.channels, 0, kMaxChannels));
  RETURN_IF_ERROR(CheckRange("threads", flags.threads, 0, kMaxThreads));
  // A lane a quarter of the machine's threads: the server is often on it too.
  const int automatic = std::clamp(host.cpus / 4, 1, 8);
  options->lanes = std::min(flags.threads > 0 ? flags.threads : automatic,
                            MostLanes(*options));
  const int wanted = std::max(flags.channels, options->lanes);
  options->channels =
      (wanted + options->lanes - 1) / options->lanes * options->lanes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadtestOptions> ParseLoadtestOptions(const LoadtestFlags& flags,
                                                     const LoadtestHost& host) {
  LoadtestOptions options;
  options.server = flags.server;
  ASSIGN_OR_RETURN(options.transport, ParseTransport(flags));
  ASSIGN_OR_RETURN(options.layers, ParseLayerOptions(flags, host));
  ASSIGN_OR_RETURN(options.request, ParseRequest(flags));
  ASSIGN_OR_RETURN(options.arrivals, ParseArrivals(flags, host));
  ASSIGN_OR_RETURN(options.churn, ParseChurn(flags));
  options.yardstick = flags.yardstick;
  RETURN_IF_ERROR(ParseSearch(flags, &options));
  ASSIGN_OR_RETURN(options.verify, ParseVerify(flags.verify));
  ASSIGN_OR_RETURN(options.output, ParseOutput(flags, host));
  RETURN_IF_ERROR(ParseConnections(flags, host, &options));
  RETURN_IF_ERROR(CheckNullTransport(flags, options));
  RETURN_IF_ERROR(CheckStreamTransport(options));
  options.seed = flags.seed;
  return options;
}

absl::string_view Name(VerifyMode mode) {
  switch (mode) {
    case VerifyMode::kNone:
      return "none";
    case VerifyMode::kSample:
      return "sample";
    case VerifyMode::kAll:
      return "all";
  }
  return "";
}

absl::string_view Name(TransportKind kind) {
  switch (kind) {
    case TransportKind::kTcp:
      return "tcp";
    case TransportKind::kUnix:
      return "unix";
    case TransportKind::kStream:
      return "stream";
    case TransportKind::kNull:
      return "null";
  }
  return "";
}

}  // namespace qgemm
