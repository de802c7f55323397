// SPDX-License-Identifier: Apache-2.0
//
// The stages that a request's time is told by.

#ifndef QGEMM_SERVER_METRICS_REQUEST_STAGES_H_
#define QGEMM_SERVER_METRICS_REQUEST_STAGES_H_

#include "absl/time/time.h"

namespace qgemm {

// Where the time of a request with a result went.
struct RequestStages {
  absl::Duration queue;
  absl::Duration host_to_device;
  absl::Duration kernel;
  absl::Duration device_to_host;
  absl::Duration total;  // from its arrival to the end of its last launch
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_REQUEST_STAGES_H_
