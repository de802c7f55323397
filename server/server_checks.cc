// SPDX-License-Identifier: Apache-2.0
//
// Bounds of the settings.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "server/net/listener.h"
#include "server/server_options.h"
#include "server/weights/name_binding.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

// Longer than any client waits.
constexpr absl::Duration kMaxAgeCap = absl::Minutes(1);

constexpr int64_t kMaxLaneBytes = int64_t{1} << 40;

constexpr absl::Duration kMinIdleTimeout = absl::Milliseconds(100);
constexpr absl::Duration kMaxIdleTimeout = absl::Hours(24);

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, " = ", value, " is not between ", low, " and ", high));
}

absl::Status CheckLaunchTimeout(absl::Duration timeout) {
  constexpr absl::Duration kLeast = absl::Seconds(1);
  if (timeout == absl::ZeroDuration() || timeout >= kLeast) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--launch_timeout = ", absl::FormatDuration(timeout), " is below ",
      absl::FormatDuration(kLeast), "; 0 sets no limit"));
}

absl::Status CheckConnectionLimits(const ConnectionLimits& limits) {
  RETURN_IF_ERROR(
      CheckRange("max_connections", limits.max_connections, 1, 1 << 20));
  return CheckRange("max_peer_connections", limits.max_peer_connections, 1,
                    1 << 20);
}

absl::Status CheckStreamLimits(const StreamLimits& limits) {
  constexpr int64_t kMaxBytes = int64_t{1} << 40;
  RETURN_IF_ERROR(
      CheckRange("max_stream_requests", limits.max_requests, 1, 1 << 20));
  RETURN_IF_ERROR(
      CheckRange("max_stream_bytes", limits.max_bytes, 1, kMaxBytes));
  return CheckRange("max_stream_operand_bytes", limits.max_operand_bytes, 1,
                    kMaxBytes);
}

absl::Status CheckClientLimits(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckRange("max_streams", options.max_streams, 1, 1 << 20));
  RETURN_IF_ERROR(CheckRange("max_client_staging_bytes",
                             options.max_client_staging_bytes, 0, kMaxInt64));
  RETURN_IF_ERROR(CheckRange("min_upload_bytes_per_second",
                             options.min_upload_bytes_per_second, 0,
                             kMaxInt32));
  if (options.idle_timeout < kMinIdleTimeout ||
      options.idle_timeout > kMaxIdleTimeout) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--idle_timeout = ", absl::FormatDuration(options.idle_timeout),
        " is not between ", absl::FormatDuration(kMinIdleTimeout), " and ",
        absl::FormatDuration(kMaxIdleTimeout)));
  }
  return absl::OkStatus();
}

absl::Status CheckLanes(const ServerOptions& options) {
  constexpr absl::Duration kMaxSpin = absl::Seconds(1);
  RETURN_IF_ERROR(CheckRange("max_lanes", options.lanes.max_lanes, 1, 4096));
  RETURN_IF_ERROR(
      CheckRange("max_lane_bytes", options.lanes.max_bytes, 1, kMaxLaneBytes));
  RETURN_IF_ERROR(CheckRange("max_client_lane_bytes",
                             options.lanes.max_client_bytes, 0, kMaxLaneBytes));
  if (options.allow_device_operands && options.lane_listen.empty()) {
    return absl::InvalidArgumentError(
        "--allow_device_operands goes with --lane_listen");
  }
  if (options.lane_spin >= absl::ZeroDuration() &&
      options.lane_spin <= kMaxSpin) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--lane_spin = ", absl::FormatDuration(options.lane_spin),
                   " is not between 0 and ", absl::FormatDuration(kMaxSpin)));
}

absl::Status CheckNames(absl::string_view flag,
                        const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const absl::Status valid = ValidateName(name);
    if (!valid.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, ": ", valid.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSchedulerOptions(const SchedulerOptions& options) {
  RETURN_IF_ERROR(CheckRange("max_queued_requests", options.max_queued_requests,
                             1, kMaxInt32));
  RETURN_IF_ERROR(
      CheckRange("max_queued_bytes", options.max_queued_bytes, 1, kMaxInt64));
  RETURN_IF_ERROR(CheckRange("max_client_queued_rows",
                             options.max_client_queued_rows, 0, kMaxInt64));
  RETURN_IF_ERROR(CheckRange("max_client_queued_bytes",
                             options.max_client_queued_bytes, 0, kMaxInt64));
  const absl::Duration age_cap = options.policy.age_cap;
  if (age_cap < absl::ZeroDuration() || age_cap > kMaxAgeCap) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--batch_age_cap = ", absl::FormatDuration(age_cap),
        " is not between 0 and ", absl::FormatDuration(kMaxAgeCap)));
  }
  return absl::OkStatus();
}

// An address that other hosts reach needs more than one of this host. Whether
// the files are any good is found out at the start.
absl::Status CheckTls(const ServerOptions& options) {
  const auto has_tls = [](absl::string_view address) {
    return absl::StartsWith(address, "tls:");
  };
  const auto address =
      std::find_if(options.listen.begin(), options.listen.end(), has_tls);
  if (address == options.listen.end()) return absl::OkStatus();
  const std::pair<const char*, const std::string&> needed[] = {
      {"tls_cert", options.tls.certificate},
      {"tls_key", options.tls.key},
      {"tls_client_ca", options.tls.client_ca},
      {"access_table", options.access_table}};
  for (const auto& [flag, value] : needed) {
    if (!value.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen = \"", *address, "\" needs --", flag,
        "; an address that other hosts reach has TLS, asks clients for "
        "certificates, and has a table of what they may do"));
  }
  return absl::OkStatus();
}

absl::Status CheckImages(const ServerOptions& options) {
  if (options.state_image_bytes == 0 || !options.state_dir.empty()) {
    return CheckRange("state_image_bytes", options.state_image_bytes, 0,
                      kMaxInt64);
  }
  return absl::InvalidArgumentError(
      "--state_image_bytes goes with --state_dir, where images lie");
}

absl::Status CheckKeepMemory(const ServerOptions& options) {
  const std::string& holder = options.keep_memory;
  if (holder.empty()) return absl::OkStatus();
  if (holder != "systemd" && holder[0] != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("--keep_memory = \"", holder,
                     "\" is neither systemd nor the absolute path of a "
                     "qgemm_holder's socket"));
  }
  if (!options.state_dir.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--keep_memory goes with --state_dir, which has the layers' names");
}

}  // namespace

absl::Status Validate(const ServerOptions& options) {
  if (options.listen.empty()) {
    return absl::InvalidArgumentError(
        "--listen is empty; name at least one address");
  }
  RETURN_IF_ERROR(ParseSocketMode(options.socket_mode).status());
  RETURN_IF_ERROR(CheckTls(options));
  RETURN_IF_ERROR(CheckConnectionLimits(options.connections));
  RETURN_IF_ERROR(Validate(options.grpc));
  RETURN_IF_ERROR(CheckRange("threads", options.backend.cpu.threads, 0, 4096));
  RETURN_IF_ERROR(CheckRange("weights_budget_bytes",
                             options.weights_budget_bytes, 0, kMaxInt64));
  RETURN_IF_ERROR(
      CheckRange("max_staging_bytes", options.max_staging_bytes, 0, kMaxInt64));
  // gRPC counts a message's bytes in an int.
  RETURN_IF_ERROR(CheckRange("max_message_bytes", options.max_message_bytes,
                             4096, kMaxInt32));
  RETURN_IF_ERROR(
      CheckRange("max_n", options.weights_limits.max_n, 1, kMaxInt32));
  RETURN_IF_ERROR(
      CheckRange("max_k", options.weights_limits.max_k, 1, kMaxInt32));
  RETURN_IF_ERROR(CheckRange("max_uploads", options.max_uploads, 1, 64));
  if (options.upload_linger < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--upload_linger = ", absl::FormatDuration(options.upload_linger),
        " is negative; 0 keeps no upload that was cut off"));
  }
  RETURN_IF_ERROR(CheckRange("max_layers", options.max_layers, 1, kMaxInt32));
  RETURN_IF_ERROR(CheckRange("max_names", options.max_names, 1, kMaxInt32));
  RETURN_IF_ERROR(
      CheckRange("max_programs", options.max_programs, 1, kMaxInt32));
  RETURN_IF_ERROR(
      CheckRange("max_program_names", options.max_program_names, 1, kMaxInt32));
  RETURN_IF_ERROR(CheckStreamLimits(options.stream));
  RETURN_IF_ERROR(CheckLaunchTimeout(options.launch_timeout));
  RETURN_IF_ERROR(CheckClientLimits(options));
  RETURN_IF_ERROR(CheckLanes(options));
  RETURN_IF_ERROR(CheckNames("ready_names", options.ready_names));
  RETURN_IF_ERROR(CheckRange("state_bytes", options.state_bytes, 0, kMaxInt64));
  RETURN_IF_ERROR(CheckImages(options));
  RETURN_IF_ERROR(CheckNames("pin_names", options.pin_names));
  RETURN_IF_ERROR(CheckKeepMemory(options));
  if (options.eviction.min_residency < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--min_residency = ",
                     absl::FormatDuration(options.eviction.min_residency),
                     " is negative; 0 lets every layer go"));
  }
  return CheckSchedulerOptions(options.scheduler);
}

}  // namespace qgemm
