// SPDX-License-Identifier: Apache-2.0
//
// One admitted request on its way from the wire to a batch and back.

#ifndef QGEMM_SERVER_SCHEDULING_GEMM_REQUEST_H_
#define QGEMM_SERVER_SCHEDULING_GEMM_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// What the server tells of one answered request.
struct GemmTimings {
  absl::Duration queue;
  absl::Duration host_to_device;
  absl::Duration kernel;
  absl::Duration device_to_host;
  int64_t launch_rows = 0;
  int64_t launch_requests = 0;
};

// Owned by whoever holds the unique_ptr; ends by exactly one call of `done`.
struct GemmRequest {
  std::shared_ptr<const ResidentWeights> weights;
  MatmulSignature signature;
  int64_t m = 0;
  StagingLease a;  // [m, k]
  StagingLease c;  // [m, n], written by the launch
  absl::Time arrival;
  absl::Time deadline = absl::InfiniteFuture();
  // Set by the transport when the caller went away; read before execution.
  std::shared_ptr<const std::atomic<bool>> cancelled;

  // Runs exactly once, on any thread, with the request itself so that `c` can
  // be read and sent. Must not block.
  using Done =
      absl::AnyInvocable<void(absl::Status status, const GemmTimings& timings,
                              std::unique_ptr<GemmRequest> request)>;
  Done done;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_GEMM_REQUEST_H_
