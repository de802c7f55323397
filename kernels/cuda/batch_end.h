// SPDX-License-Identifier: Apache-2.0
//
// The end of a batch on a stream, and the times of its parts: stamps that its
// last kernel writes where kernels move its rows, events where DMA copy engines
// do.

#ifndef QGEMM_KERNELS_CUDA_BATCH_END_H_
#define QGEMM_KERNELS_CUDA_BATCH_END_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/wait_estimate.h"
#include "kernels/cuda/launch/batch_stamps.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {

// End of a wait for the device.
enum class WaitEnd : uint8_t { kDone, kTimedOut, kGivenUp };

// The end of one batch at a time. Whoever enqueues one calls Begin, then Mark
// around the parts of each of its passes or ExpectStamps; the others wait. They
// may be different threads.
class BatchEnd {
 public:
  // On the calling thread's current device; `stream` is of the batches, and
  // must outlive it.
  static absl::StatusOr<BatchEnd> Create(cudaStream_t stream);

  void Begin();
  // The batch runs on `stream` instead.
  void EndOn(cudaStream_t stream) { end_stream_ = stream; }
  // Lets waits for this batch sleep, as waits for its like have shown.
  // `estimate` must live until the wait is over.
  void SleepBy(WaitEstimate* estimate) { estimate_ = estimate; }

  // Sets the next mark: the start, then the ends of each pass's copies in,
  // kernels and copies out.
  absl::Status Mark();

  // The stamps of a batch, and what its last kernel writes into them. Both stay
  // where they are.
  BatchProgress* progress() const {
    return reinterpret_cast<BatchProgress*>(progress_.data());
  }
  BatchStamps* stamps() const {
    return reinterpret_cast<BatchStamps*>(stamps_.data());
  }
  // The kernels of the batch that has been enqueued write them.
  void ExpectStamps() {
    ++sequence_;
    has_stamps_ = true;
  }

  // True if the batch is so short that Wait() should spin rather than block.
  bool is_short() const { return has_stamps_; }

  // As LaunchContext has them.
  WaitEnd SpinUntilDone(absl::Duration limit,
                        const std::atomic<bool>& given_up);
  bool LookIfDone();
  absl::StatusOr<BatchTimings> Wait();

 private:
  BatchEnd(cudaStream_t stream, DeviceBuffer progress, PinnedBuffer stamps)
      : stream_(stream),
        end_stream_(stream),
        progress_(std::move(progress)),
        stamps_(std::move(stamps)) {}

  bool IsStamped() const;
  // Returns when it is time to look for the end.
  ObservedWait Sleep() const;
  WaitEnd Look(absl::Duration limit, const std::atomic<bool>& given_up) const;
  absl::Status WaitForStamps() const;
  absl::Status Synchronize() const;
  BatchTimings StampedTimings() const;

  cudaStream_t stream_;
  cudaStream_t end_stream_;  // of this batch
  DeviceBuffer progress_;    // a BatchProgress
  PinnedBuffer stamps_;      // a BatchStamps
  uint64_t sequence_ = 0;    // of the last stamps
  bool has_stamps_ = false;
  int looks_ = 0;  // of LookIfDone
  std::chrono::steady_clock::time_point begin_;
  WaitEstimate* estimate_ = nullptr;  // null: waits do not sleep
  std::vector<Event> marks_;
  size_t marked_ = 0;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_BATCH_END_H_
