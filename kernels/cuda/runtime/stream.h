// SPDX-License-Identifier: Apache-2.0
//
// An owned CUDA stream.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_STREAM_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_STREAM_H_

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_STREAM_H_
