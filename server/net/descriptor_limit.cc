// SPDX-License-Identifier: Apache-2.0

#include "server/net/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace qgemm {
namespace {

// Beside connections the process holds listeners, threads' wake-ups, the
// metrics endpoint's connections and the GPU driver's files.
constexpr int64_t kOtherDescriptors = 256;

// Some programs that a process starts close every number below its limit.
constexpr rlim_t kMostDescriptors = rlim_t{1} << 20;

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t raised = std::min(limit.rlim_max, kMostDescriptors);
  if (raised <= limit.rlim_cur) return;
  limit.rlim_cur = raised;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<int64_t>(std::min(limit.rlim_cur, kMostDescriptors));
}

ConnectionLimits FitTo(int64_t descriptors, const ConnectionLimits& limits) {
  const int64_t room =
      std::max(descriptors - kOtherDescriptors, descriptors / 2);
  if (limits.max_connections <= room) return limits;
  ConnectionLimits fitted;
  fitted.max_connections = static_cast<int>(room);
  fitted.max_peer_connections = std::max<int>(
      1, room * limits.max_peer_connections / limits.max_connections);
  return fitted;
}

}  // namespace qgemm
