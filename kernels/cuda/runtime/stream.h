// SPDX-License-Identifier: Apache-2.0
//
// Owned CUDA streams and events.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_STREAM_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_STREAM_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace qgemm::cuda {

// Work that the device does in order. Move-only; null when moved from.
// Destroying a stream does not wait: what is enqueued still runs. Its
// functions may be called by several threads.
class Stream {
 public:
  // On the calling thread's current device. It does not order itself with the
  // default stream.
  static absl::StatusOr<Stream> Create();

  Stream() = default;
  Stream(Stream&& other) noexcept
      : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream();

  cudaStream_t get() const { return stream_; }

  // Waits until everything enqueued so far is done.
  absl::Status Synchronize() const;

 private:
  explicit Stream(cudaStream_t stream) : stream_(stream) {}

  cudaStream_t stream_ = nullptr;
};

// Purpose of an event: one that only orders is cheaper to record.
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

 private:
  explicit Event(cudaEvent_t event) : event_(event) {}

  cudaEvent_t event_ = nullptr;
};

// The device's time from one mark to the other; both are kTiming and reached.
absl::StatusOr<absl::Duration> Elapsed(const Event& start, const Event& end);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_STREAM_H_
