// SPDX-License-Identifier: Apache-2.0
//
// Abseil flags into options.

#include "server/server_flags.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/version.h"

ABSL_FLAG(std::vector<std::string>, listen, {"127.0.0.1:50051"},
          "Where to serve gRPC: host:port on a loopback address (port 0 takes "
          "a free one, see --port_file) or unix:path. May be given several "
          "times, or with commas.");
ABSL_FLAG(std::string, port_file, "",
          "File to write the TCP ports to, one a line in the order of "
          "--listen, once the server serves.");
ABSL_FLAG(std::string, metrics_listen, "",
          "host:port on a loopback address to serve Prometheus metrics at "
          "(/metrics). Empty: none.");
ABSL_FLAG(std::string, backend, "auto",
          "What computes: auto, cpu, cuda or reference. auto takes the "
          "fastest that runs here.");
ABSL_FLAG(int32_t, threads, 0,
          "Threads that compute, of the cpu backend. 0: one a core.");
ABSL_FLAG(std::string, kernel, "auto",
          "Which family of kernels multiplies, of the cuda backend: auto (by "
          "the number of rows), or small, wide or large for every request, for "
          "debugging.");
ABSL_FLAG(std::string, row_moves, "auto",
          "Of the cuda backend, who moves rows between the host and the GPU: "
          "auto = by a batch's size; copy_engines, for comparison.");
ABSL_FLAG(std::string, tuning_file, "",
          "File with the thresholds of --kernel=auto, as kernel_bench "
          "--calibrate writes it, of the cuda backend. Empty: built-in ones.");
ABSL_FLAG(int64_t, weights_budget_bytes, 0,
          "Memory for resident weights, uploads in progress included. 0: no "
          "budget.");
ABSL_FLAG(int64_t, max_message_bytes, int64_t{64} << 20,
          "The largest request and answer.");
ABSL_FLAG(int64_t, max_queued_requests, 4096,
          "Gemm requests that may wait; more are refused with "
          "RESOURCE_EXHAUSTED.");
ABSL_FLAG(
    std::string, batching, "on",
    "on: requests that wait for the same weights share a launch, up to 64 "
    "rows, whoever sent them; off: each has a launch of its own.");
ABSL_FLAG(int64_t, max_queued_bytes, int64_t{1} << 30,
          "Bytes of the operands of waiting Gemm requests; more are refused "
          "with RESOURCE_EXHAUSTED.");
ABSL_FLAG(int64_t, max_client_queued_rows, 0,
          "Rows of one client's waiting Gemm requests; more are refused with "
          "RESOURCE_EXHAUSTED. 0: no quota.");
ABSL_FLAG(int64_t, max_client_queued_bytes, 0,
          "Bytes of the operands of one client's waiting Gemm requests; more "
          "are refused with RESOURCE_EXHAUSTED. 0: no quota.");
ABSL_FLAG(std::string, batch_policy, "oldest",
          "Which weights go first when nothing is urgent: oldest, those that "
          "were asked for first; or chase, those whose clients are a few "
          "layers behind others of the same model, so that they catch up and "
          "share launches.");
ABSL_FLAG(absl::Duration, batch_age_cap, absl::Milliseconds(1),
          "A Gemm request that waits for longer goes before younger ones of "
          "any priority, at every other launch at least.");
ABSL_FLAG(int64_t, max_n, int64_t{1} << 20,
          "The largest n (output features) of uploaded weights.");
ABSL_FLAG(int64_t, max_k, int64_t{1} << 20,
          "The largest k (input features) of uploaded weights.");
ABSL_FLAG(int32_t, max_uploads, 4,
          "Uploads at one time; more are refused with RESOURCE_EXHAUSTED.");
ABSL_FLAG(int64_t, max_stream_requests, qgemm::StreamLimits().max_requests,
          "Requests of one GemmStream that may wait for their launch or to be "
          "sent; beyond that the stream is not read.");
ABSL_FLAG(int64_t, max_stream_bytes, qgemm::StreamLimits().max_bytes,
          "Bytes of the operands of those requests; the same.");
ABSL_FLAG(int64_t, max_stream_operand_bytes,
          qgemm::StreamLimits().max_operand_bytes,
          "The largest A, and the largest C, of a request of a GemmStream, in "
          "fragments.");
ABSL_FLAG(bool, enable_echo, false,
          "For measurements: offers qgemm.v1.QgemmDebug/Echo. Its answers "
          "hold what operands of any client left in memory.");
ABSL_FLAG(bool, enable_freeze, false,
          "For tests: offers qgemm.v1.QgemmDebug/Freeze, by which any client "
          "holds all launches for up to a minute.");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "How long accepted requests may take after SIGTERM or SIGINT, for "
          "example 30s or 2m.");

namespace qgemm {
namespace {

constexpr char kUsage[] =
    "serves quantized matrix multiplication over gRPC.\n"
    "Usage: qgemm_server [--listen=127.0.0.1:50051] [--backend=auto] ...";

// Abseil would show the flags of main's file only.
void ShowAllOurFlagsInHelp() {
  absl::FlagsUsageConfig config;
  const auto ours = [](absl::string_view file) {
    return absl::StrContains(file, "server_flags");
  };
  config.contains_help_flags = ours;
  config.contains_helpshort_flags = ours;
  config.version_string = [] {
    return absl::StrCat("qgemm_server ", kVersion, "\n");
  };
  absl::SetFlagsUsageConfig(config);
}

// The rest of `argument` after -name or --name, if it is that flag.
bool ConsumeFlag(absl::string_view* argument, absl::string_view name) {
  absl::string_view rest = *argument;
  if (!absl::ConsumePrefix(&rest, "-")) return false;
  absl::ConsumePrefix(&rest, "-");
  if (!absl::ConsumePrefix(&rest, name)) return false;
  if (!rest.empty() && rest[0] != '=') return false;
  *argument = rest;
  return true;
}

// Whether the flag has the first of its two values.
absl::StatusOr<bool> IsFirst(
    absl::string_view flag, const std::string& value,
    const std::pair<const char*, const char*>& values) {
  if (value == values.first) return true;
  if (value == values.second) return false;
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " = ", value,
                                                 " is neither ", values.first,
                                                 " nor ", values.second));
}

CommandLine FromFlags() {
  CommandLine line;
  ServerOptions& server = line.server;
  server.listen = absl::GetFlag(FLAGS_listen);
  server.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  server.backend = absl::GetFlag(FLAGS_backend);
  server.threads = absl::GetFlag(FLAGS_threads);
  server.kernel = absl::GetFlag(FLAGS_kernel);
  server.row_moves = absl::GetFlag(FLAGS_row_moves);
  server.tuning_file = absl::GetFlag(FLAGS_tuning_file);
  server.weights_budget_bytes = absl::GetFlag(FLAGS_weights_budget_bytes);
  server.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  server.weights_limits.max_n = absl::GetFlag(FLAGS_max_n);
  server.weights_limits.max_k = absl::GetFlag(FLAGS_max_k);
  server.max_uploads = absl::GetFlag(FLAGS_max_uploads);
  server.scheduler.max_queued_requests =
      absl::GetFlag(FLAGS_max_queued_requests);
  server.scheduler.max_queued_bytes = absl::GetFlag(FLAGS_max_queued_bytes);
  server.stream.max_requests = absl::GetFlag(FLAGS_max_stream_requests);
  server.stream.max_bytes = absl::GetFlag(FLAGS_max_stream_bytes);
  server.stream.max_operand_bytes =
      absl::GetFlag(FLAGS_max_stream_operand_bytes);
  server.scheduler.max_client_queued_rows =
      absl::GetFlag(FLAGS_max_client_queued_rows);
  server.scheduler.max_client_queued_bytes =
      absl::GetFlag(FLAGS_max_client_queued_bytes);
  server.scheduler.policy.age_cap = absl::GetFlag(FLAGS_batch_age_cap);
  server.enable_echo = absl::GetFlag(FLAGS_enable_echo);
  server.enable_freeze = absl::GetFlag(FLAGS_enable_freeze);
  line.port_file = absl::GetFlag(FLAGS_port_file);
  line.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  return line;
}

}  // namespace

std::vector<std::string> JoinRepeated(const std::vector<std::string>& arguments,
                                      absl::string_view name) {
  std::vector<std::string> joined;
  std::vector<absl::string_view> values;
  size_t place = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view rest = arguments[i];
    if (rest == "--") {  // no flags from here on
      joined.insert(joined.end(), arguments.begin() + i, arguments.end());
      break;
    }
    const bool has_value =
        ConsumeFlag(&rest, name) &&
        (absl::ConsumePrefix(&rest, "=") || i + 1 < arguments.size());
    if (!has_value) {
      joined.push_back(arguments[i]);
      continue;
    }
    if (values.empty()) place = joined.size();
    values.push_back(absl::StrContains(arguments[i], "=")
                         ? rest
                         : absl::string_view(arguments[++i]));
  }
  if (values.empty()) return joined;
  joined.insert(joined.begin() + place,
                absl::StrCat("--", name, "=", absl::StrJoin(values, ",")));
  return joined;
}

absl::StatusOr<CommandLine> ParseServerFlags(int argc, char** argv) {
  absl::SetProgramUsageMessage(kUsage);
  ShowAllOurFlagsInHelp();
  std::vector<std::string> arguments =
      JoinRepeated(std::vector<std::string>(argv, argv + argc), "listen");
  std::vector<char*> pointers;
  pointers.reserve(arguments.size());
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  const std::vector<char*> rest = absl::ParseCommandLine(
      static_cast<int>(pointers.size()), pointers.data());
  if (rest.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", rest[1], "\" is not a flag; see --help"));
  }
  CommandLine line = FromFlags();
  ASSIGN_OR_RETURN(
      line.server.batching,
      IsFirst("batching", absl::GetFlag(FLAGS_batching), {"on", "off"}));
  ASSIGN_OR_RETURN(const bool oldest,
                   IsFirst("batch_policy", absl::GetFlag(FLAGS_batch_policy),
                           {"oldest", "chase"}));
  line.server.scheduler.policy.order =
      oldest ? BatchOrder::kOldest : BatchOrder::kChase;
  if (line.drain_timeout < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--drain_timeout = ", absl::FormatDuration(line.drain_timeout),
        " is negative"));
  }
  return line;
}

}  // namespace qgemm
