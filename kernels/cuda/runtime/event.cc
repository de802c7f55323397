// SPDX-License-Identifier: Apache-2.0
//
// Events by the runtime API.

#include "kernels/cuda/runtime/event.h"

#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/log_failure.h"

namespace qgemm::cuda {

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

absl::StatusOr<bool> Event::IsDone() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // not an error, yet CUDA may keep it as one
    return false;
  }
  RETURN_IF_ERROR(ToStatus(code, "query an event"));
  return true;
}

absl::StatusOr<absl::Duration> Elapsed(const Event& start, const Event& end) {
  float milliseconds = 0;
  RETURN_IF_ERROR(
      ToStatus(cudaEventElapsedTime(&milliseconds, start.get(), end.get()),
               "take the time between two events"));
  return absl::Milliseconds(static_cast<double>(milliseconds));
}

}  // namespace qgemm::cuda
