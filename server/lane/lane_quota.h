// SPDX-License-Identifier: Apache-2.0
//
// Bounds of lanes and of their memory, in all and by client.

#ifndef QGEMM_SERVER_LANE_LANE_QUOTA_H_
#define QGEMM_SERVER_LANE_LANE_QUOTA_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"

namespace qgemm {

struct LaneLimits {
  int max_lanes = 256;  // --max_lanes; one client has half of them, or one
  int64_t max_bytes = int64_t{1} << 30;  // --max_lane_bytes
  int64_t max_client_bytes = 0;  // --max_client_lane_bytes; 0: half of all
};

// Used by one thread at a time.
class LaneQuota {
 public:
  explicit LaneQuota(const LaneLimits& limits) : limits_(limits) {}

  // Counts a lane of so many bytes, or says RESOURCE_EXHAUSTED with the bound
  // that it would be beyond, and the flag that sets it.
  absl::Status Take(const std::string& identity, int64_t bytes);
  // Gives back what one Take took.
  void Return(const std::string& identity, int64_t bytes);

  int lanes() const { return all_.lanes; }
  int64_t bytes() const { return all_.bytes; }

 private:
  struct Use {
    int lanes = 0;
    int64_t bytes = 0;
  };

  const LaneLimits limits_;
  Use all_;
  std::unordered_map<std::string, Use> by_identity_;  // none is zero
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_LANE_QUOTA_H_
