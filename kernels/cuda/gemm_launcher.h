// SPDX-License-Identifier: Apache-2.0
//
// Enqueues the multiplication of a planned launch: rounds and prepares its
// activations where kernels need that, and starts the path's kernels.

#ifndef QGEMM_KERNELS_CUDA_GEMM_LAUNCHER_H_
#define QGEMM_KERNELS_CUDA_GEMM_LAUNCHER_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/plan/kernel_path.h"
#include "kernels/cuda/plan/launch_plan.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// A device and the means that batches share on it. Borrowed.
struct LaunchEnvironment {
  const Device* device = nullptr;
  const KernelPolicy* policy = nullptr;
  CublasGemm* cublas = nullptr;  // null without cuBLASLt
};

// OK, or UNIMPLEMENTED with what there are kernels for.
absl::Status CheckSignature(const CudaWeights& weights,
                            const MatmulSignature& signature);

// A layer and a signature, with what plans and launches derive from them.
struct GemmJob {
  std::shared_ptr<const CudaWeights> weights;
  ComputeMode mode = ComputeMode::kA16;
  FloatType a_type = FloatType::kFloat16;
  // In A16 activations are rounded to the one, and kernels read the other.
  FloatType rounded_type = FloatType::kFloat16;
  FloatType operand_type = FloatType::kFloat16;
  FloatType c_type = FloatType::kFloat16;
  LayerShape layer;  // borrows from the weights
  BatchShape shape;

  // The path of a launch of `rows` rows of a request that shares none.
  KernelPath PathOf(int64_t rows, const LaunchEnvironment& environment) const {
    return ChooseManyRowsPath(layer, rows, environment.device->traits,
                              *environment.policy)
        .path;
  }
};
GemmJob MakeGemmJob(std::shared_ptr<const CudaWeights> weights,
                    const MatmulSignature& signature,
                    const LaunchEnvironment& environment);

// Device memory of a launch: the buffers that BatchShape has for its rows.
struct LaunchMemory {
  const uint8_t* a = nullptr;
  uint8_t* rounded = nullptr;
  uint8_t* prepared = nullptr;
  uint8_t* c = nullptr;
};

// Enqueues c = a * W^T + bias for the launch's rows. cuBLASLt reads and writes
// up to padded_rows rows, and wants c on 256 bytes.
absl::Status EnqueueGemm(const GemmJob& job, const PlannedLaunch& launch,
                         const LaunchMemory& memory,
                         const LaunchEnvironment& environment,
                         StreamScratch& stream_scratch, cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_GEMM_LAUNCHER_H_
