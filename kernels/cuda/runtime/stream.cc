// SPDX-License-Identifier: Apache-2.0
//
// Streams and events by the runtime API.

#include "kernels/cuda/runtime/stream.h"

#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {

absl::StatusOr<Stream> Stream::Create() {
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
               "create a stream"));
  return Stream(stream);
}

Stream::~Stream() {
  if (stream_ != nullptr) {
    LogFailure(cudaStreamDestroy(stream_), "destroy a stream");
  }
}

absl::Status Stream::Synchronize() const {
  return ToStatus(cudaStreamSynchronize(stream_), "synchronize a stream");
}

absl::StatusOr<Event> Event::Create(EventKind kind) {
  const unsigned flags =
      kind == EventKind::kTiming ? cudaEventDefault : cudaEventDisableTiming;
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaEventCreateWithFlags(&event, flags), "create an event"));
  return Event(event);
}

Event::~Event() {
  if (event_ != nullptr) {
    LogFailure(cudaEventDestroy(event_), "destroy an event");
  }
}

absl::Status Event::Record(cudaStream_t stream) {
  return ToStatus(cudaEventRecord(event_, stream), "record an event");
}

absl::Status Event::EnqueueWait(cudaStream_t stream) const {
  return ToStatus(cudaStreamWaitEvent(stream, event_, 0),
                  "make a stream wait for an event");
}

absl::Status Event::Synchronize() const {
  return ToStatus(cudaEventSynchronize(event_), "wait for an event");
}

absl::StatusOr<absl::Duration> Elapsed(const Event& start, const Event& end) {
  float milliseconds = 0;
  RETURN_IF_ERROR(
      ToStatus(cudaEventElapsedTime(&milliseconds, start.get(), end.get()),
               "take the time between two events"));
  return absl::Milliseconds(static_cast<double>(milliseconds));
}

}  // namespace qgemm::cuda
