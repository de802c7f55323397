// SPDX-License-Identifier: Apache-2.0
//
// An owned CUDA event.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_EVENT_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_EVENT_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace qgemm::cuda {

// What an event is for: one that only orders is cheaper to record.
enum class EventKind : uint8_t { kTiming, kOrdering };

// A mark in a stream. Move-only; null when moved from. Calls may come from
// several threads, those that record from one at a time.
class Event {
 public:
  // On the calling thread's current device.
  static absl::StatusOr<Event> Create(EventKind kind = EventKind::kTiming);

  Event() = default;
  Event(Event&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();

  cudaEvent_t get() const { return event_; }

  // Sets the mark behind what `stream` has by now. An event that was never
  // recorded counts as reached.
  absl::Status Record(cudaStream_t stream);

  // Holds back what is enqueued on `stream` from now on until the device
  // reaches the mark; does not block the host.
  absl::Status EnqueueWait(cudaStream_t stream) const;

  // Blocks the calling thread until the device reaches the mark.
  absl::Status Synchronize() const;

  // Whether the device has reached the mark. An error is the stream's.
  absl::StatusOr<bool> IsDone() const;

 private:
  explicit Event(cudaEvent_t event) : event_(event) {}

  cudaEvent_t event_ = nullptr;
};

// The device's time from one mark to the other; both are kTiming and reached.
absl::StatusOr<absl::Duration> Elapsed(const Event& start, const Event& end);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_EVENT_H_
