// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/runtime/graph.h"

#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

// The stream's capture ends on an error too.
absl::Status Capture(cudaStream_t stream,
                     absl::FunctionRef<absl::Status()> enqueue,
                     cudaGraph_t* recorded) {
  RETURN_IF_ERROR(
      ToStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "begin to record a graph"));
  absl::Status status = enqueue();
  status.Update(
      ToStatus(cudaStreamEndCapture(stream, recorded), "record a graph"));
  return status;
}

}  // namespace

absl::StatusOr<Graph> Graph::Record(cudaStream_t stream,
                                    absl::FunctionRef<absl::Status()> enqueue) {
  cudaGraph_t recorded = nullptr;
  absl::Status status = Capture(stream, enqueue, &recorded);
  cudaGraphExec_t exec = nullptr;
  if (status.ok()) {
    status = ToStatus(cudaGraphInstantiate(&exec, recorded, 0),
                      "make a graph ready");
  }
  if (recorded != nullptr) {
    LogFailure(cudaGraphDestroy(recorded), "destroy a recorded graph");
  }
  RETURN_IF_ERROR(status);
  return Graph(exec);
}

Graph::~Graph() {
  if (exec_ == nullptr) return;
  LogFailure(cudaGraphExecDestroy(exec_), "destroy a graph");
}

absl::Status Graph::Launch(cudaStream_t stream) const {
  return ToStatus(cudaGraphLaunch(exec_, stream), "launch a graph");
}

}  // namespace qgemm::cuda
