// SPDX-License-Identifier: Apache-2.0
//
// The recording of a stream's capture, to be launched again and again.

#ifndef QGEMM_TESTS_KERNELS_CUDA_CAPTURED_GRAPH_H_
#define QGEMM_TESTS_KERNELS_CUDA_CAPTURED_GRAPH_H_

#include <cuda_runtime_api.h>

#include "gtest/gtest.h"

namespace qgemm::cuda {

// A captured graph, ready to be launched.
class CapturedGraph {
 public:
  // Ends the stream's capture.
  explicit CapturedGraph(cudaStream_t stream) {
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph_), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&ready_, graph_, 0), cudaSuccess);
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph() {
    cudaGraphExecDestroy(ready_);
    cudaGraphDestroy(graph_);
  }

  cudaError_t Launch(cudaStream_t stream) const {
    return cudaGraphLaunch(ready_, stream);
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_CAPTURED_GRAPH_H_
