// SPDX-License-Identifier: Apache-2.0
//
// One admitted request on its way from the wire to its launches and back.

#ifndef QGEMM_SERVER_SCHEDULING_GEMM_REQUEST_H_
#define QGEMM_SERVER_SCHEDULING_GEMM_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/task_runner.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// Who goes first among those that wait. In rising order.
enum class Priority : uint8_t { kLow, kNormal, kHigh };

// What the server tells of one answered request; times are sums over its
// launches.
struct GemmTimings {
  absl::Duration queue;
  absl::Duration host_to_device;
  absl::Duration kernel;
  absl::Duration device_to_host;
  // Of the request's largest launch.
  int64_t launch_rows = 0;
  int64_t launch_requests = 0;
};

// Rows [first, first + count) of a request.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Owned by whoever holds the unique_ptr; ends by exactly one call of `done`.
struct GemmRequest {
  std::shared_ptr<const ResidentWeights> weights;
  MatmulSignature signature;
  int64_t m = 0;
  StagingLease a;  // [m, k]
  StagingLease c;  // [m, n], written by the launches
  absl::Time arrival;
  absl::Time deadline = absl::InfiniteFuture();
  // Whose it is, for fairness and quotas.
  std::string client;
  Priority priority = Priority::kNormal;
  // Set by the transport when the caller went away; read before execution.
  std::shared_ptr<const std::atomic<bool>> cancelled;

  // Runs exactly once, on any thread, with the request itself so that `c` can
  // be read and sent. Must not block.
  using Done =
      absl::AnyInvocable<void(absl::Status status, const GemmTimings& timings,
                              std::unique_ptr<GemmRequest> request)>;
  Done done;
  // Where `done` runs if it is not worth its while where the launch ended;
  // null: there. Must outlive the request.
  TaskRunner* home = nullptr;

  // What the launch that it is in computes, the rows before which are done;
  // set by the scheduler.
  RowRange in_launch;
  // Of the launches that have ended, and when the last one did.
  GemmTimings timings;
  absl::Time last_launch_end = absl::InfinitePast();

  // Rows that no ended launch has computed.
  int64_t rows_left() const { return m - in_launch.first; }
  int64_t operand_bytes() const { return a.size_bytes() + c.size_bytes(); }
  // When it last began to wait for a launch.
  absl::Time waiting_since() const {
    return arrival > last_launch_end ? arrival : last_launch_end;
  }
  bool is_cancelled() const {
    return cancelled != nullptr && cancelled->load(std::memory_order_acquire);
  }
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_GEMM_REQUEST_H_
