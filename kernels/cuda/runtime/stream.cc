// SPDX-License-Identifier: Apache-2.0
//
// Streams by the runtime API.

#include "kernels/cuda/runtime/stream.h"

#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/log_failure.h"

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

}  // namespace qgemm::cuda
