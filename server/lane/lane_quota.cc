// SPDX-License-Identifier: Apache-2.0

#include "server/lane/lane_quota.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

absl::Status CheckLanes(absl::string_view who, int lanes, int limit,
                        absl::string_view flag) {
  if (lanes < limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      who, " ", lanes, " lanes and the limit is ", limit, " (", flag, ")"));
}

absl::Status CheckBytes(absl::string_view who, int64_t bytes, int64_t more,
                        int64_t limit, absl::string_view flag) {
  if (more <= limit - bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a lane of ", more, " bytes: ", who, " lanes of ", bytes,
                   " bytes and the limit is ", limit, " (", flag, ")"));
}

}  // namespace

absl::Status LaneQuota::Take(const std::string& identity, int64_t bytes) {
  const auto found = by_identity_.find(identity);
  const Use own = found == by_identity_.end() ? Use() : found->second;
  const int max_own_lanes = std::max(limits_.max_lanes / 2, 1);
  const int64_t max_own_bytes = limits_.max_client_bytes > 0
                                    ? limits_.max_client_bytes
                                    : limits_.max_bytes / 2;
  const std::string client = absl::StrCat(identity, " has");
  // The client's own first: what others have is not told where it can be
  // helped.
  RETURN_IF_ERROR(
      CheckLanes(client, own.lanes, max_own_lanes, "half of --max_lanes"));
  RETURN_IF_ERROR(CheckBytes(client, own.bytes, bytes, max_own_bytes,
                             "--max_client_lane_bytes"));
  RETURN_IF_ERROR(CheckLanes("all clients have", all_.lanes, limits_.max_lanes,
                             "--max_lanes"));
  RETURN_IF_ERROR(CheckBytes("all clients have", all_.bytes, bytes,
                             limits_.max_bytes, "--max_lane_bytes"));
  Use& use = by_identity_[identity];
  for (Use* const each : {&use, &all_}) {
    each->lanes += 1;
    each->bytes += bytes;
  }
  return absl::OkStatus();
}

void LaneQuota::Return(const std::string& identity, int64_t bytes) {
  const auto found = by_identity_.find(identity);
  for (Use* const each : {&found->second, &all_}) {
    each->lanes -= 1;
    each->bytes -= bytes;
  }
  if (found->second.lanes == 0) by_identity_.erase(found);
}

}  // namespace qgemm
