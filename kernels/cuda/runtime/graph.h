// SPDX-License-Identifier: Apache-2.0
//
// Owned CUDA graphs, recorded from what is enqueued on a stream.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_GRAPH_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_GRAPH_H_

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qgemm::cuda {

// Work with all its parameters, to be enqueued again and again. Move-only; null
// when default-constructed or moved from.
class Graph {
 public:
  // Records what `enqueue` enqueues on `stream` instead of running it. It may
  // neither allocate nor wait. Errors: those of `enqueue`; RESOURCE_EXHAUSTED.
  static absl::StatusOr<Graph> Record(
      cudaStream_t stream, absl::FunctionRef<absl::Status()> enqueue);

  Graph() = default;
  Graph(Graph&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }
  ~Graph();

  // Enqueues the work. It is under way once at a time.
  absl::Status Launch(cudaStream_t stream) const;

 private:
  explicit Graph(cudaGraphExec_t exec) : exec_(exec) {}

  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_GRAPH_H_
