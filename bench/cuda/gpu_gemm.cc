// SPDX-License-Identifier: Apache-2.0
//
// Cuts the rows by the backend's own plan, and launches what the backend would.

#include "bench/cuda/gpu_gemm.h"

#include <limits>

#include "base/status_macros.h"
#include "bench/cuda/random_arena.h"
#include "kernels/cuda/launch/a32_gemm.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/rows.h"
#include "kernels/cuda/launch/w4a8_gemm.h"
#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_prefill_plan.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {
namespace {

BatchShape ShapeOf(const GemmScheme& scheme, const CudaWeights& weights) {
  const int64_t element = SizeOf(scheme.bench_case.dtype);
  BatchShape shape;
  shape.a_row_bytes = weights.k() * element;
  if (scheme.prepares) {
    shape.prepared_row_bytes =
        OperandStride(weights.k()) * SizeOf(scheme.operand_type);
  }
  shape.c_row_bytes = weights.n() * element;
  return shape;
}

// Device memory of a launch.
struct LaunchMemory {
  const uint8_t* a;  // of the operand type
  uint8_t* c;
  uint8_t* handed;  // GemmOperands::handed
};

absl::Status EnqueueFused(const GemmScheme& scheme, const PlannedLaunch& launch,
                          const CudaWeights& weights,
                          const LaunchMemory& memory, const Device& device,
                          cudaStream_t stream) {
  GemmOperands operands;
  operands.handed = memory.handed;
  operands.weights = weights.tiled();
  operands.a = memory.a;
  operands.lda = OperandStride(weights.k());
  operands.a_type = scheme.operand_type;
  operands.c = memory.c;
  operands.c_type = scheme.bench_case.dtype;
  operands.m = launch.rows;
  return launch.path == KernelPath::kDecode
             ? ToStatus(LaunchDecodeGemm(device, operands, stream),
                        "launch the decode kernel")
             : ToStatus(LaunchPrefillGemm(device, operands, stream),
                        "launch the prefill kernel");
}

// Without operands and scratch.
CublasGemmCall CallOf(const GemmScheme& scheme, const PlannedLaunch& launch,
                      const std::shared_ptr<const CudaWeights>& weights) {
  CublasGemmCall call;
  call.weights = weights;
  call.operand_type = scheme.operand_type;
  call.c_type = scheme.bench_case.dtype;
  call.m = launch.rows;
  return call;
}

// Bytes of a row of mode A8 or A32 as the mode's kernels read it.
int64_t PreparedRowBytes(KernelPath path, const CudaWeights& weights) {
  const int64_t k_tiles = weights.tiled().layout.k_tiles;
  return path == KernelPath::kW4A8 ? Q8RoomOfRow(k_tiles)
                                   : k_tiles * kA32RowBytes;
}

bool IsOnlyKernel(KernelPath path) {
  return path == KernelPath::kW4A8 || path == KernelPath::kA32;
}

// The kernel of mode A8 that a path's name stands for: decode that for few
// rows, prefill that for many where it multiplies the layer.
int W4A8KernelOf(KernelPath path, const TiledWeights& weights, int64_t m,
                 const DeviceTraits& device) {
  const W4A8PrefillCost* const cost =
      path == KernelPath::kPrefill
          ? BestW4A8PrefillCost(weights.layout, m, device)
          : nullptr;
  if (cost != nullptr) return cost->tile_m;
  return path == KernelPath::kAuto ? kBestW4A8Kernel : kFewRowsW4A8Kernel;
}

// All launches of modes A8 and A32 are shared ones of the mode's only kernel.
void PlanOnlyKernel(const CudaWeights& weights, GemmScheme& scheme) {
  const KernelPath path = scheme.bench_case.mode == ComputeMode::kA8
                              ? KernelPath::kW4A8
                              : KernelPath::kA32;
  scheme.choice = {path, ChoiceReason::kOnlyKernel};
  BatchShape shape = ShapeOf(scheme, weights);
  shape.prepared_row_bytes = PreparedRowBytes(path, weights);
  shape.max_shared_rows = std::numeric_limits<int64_t>::max();
  shape.shared_path = path;
  LaunchPlan plan;
  const RowSegment segment = {scheme.bench_case.m, nullptr, nullptr};
  plan.Make({&segment, 1}, shape, [path](int64_t) { return path; });
  scheme.launches.assign(plan.launches().begin(), plan.launches().end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuGemm>> GpuGemm::Create(const Device& device) {
  ASSIGN_OR_RETURN(std::unique_ptr<CublasGemm> cublas,
                   CublasGemm::Create(device.traits));
  return std::unique_ptr<GpuGemm>(new GpuGemm(device, std::move(cublas)));
}

GemmScheme GpuGemm::SchemeOf(const BenchCase& bench_case,
                             const CudaWeights& weights,
                             const DeviceTraits& device) {
  GemmScheme scheme;
  scheme.bench_case = bench_case;
  if (bench_case.mode != ComputeMode::kA16) {
    PlanOnlyKernel(weights, scheme);
    return scheme;
  }
  const MatmulSignature signature = bench_case.signature();
  const bool rounds = signature.a_type == FloatType::kFloat32;
  scheme.operand_type =
      OperandType(weights, rounds ? signature.rounding : signature.a_type);
  scheme.prepares = scheme.operand_type != signature.a_type ||
                    OperandStride(weights.k()) != weights.k();
  const LayerShape layer = weights.layer_shape(
      NeedsFp32Sums(weights, scheme.operand_type, signature.c_type));
  KernelPolicy policy;
  policy.forced = bench_case.kernel;
  scheme.choice = ChooseKernelPath(layer, bench_case.m, device, policy);
  BatchShape shape = ShapeOf(scheme, weights);
  shape.max_shared_rows = MaxSharedRows(layer, policy);
  shape.shared_path = ChooseKernelPath(layer, /*m=*/1, device, policy).path;
  LaunchPlan plan;
  const RowSegment segment = {bench_case.m, nullptr, nullptr};
  plan.Make({&segment, 1}, shape, [&](int64_t rows) {
    return ChooseManyRowsPath(layer, rows, device, policy).path;
  });
  scheme.launches.assign(plan.launches().begin(), plan.launches().end());
  return scheme;
}

absl::Status GpuGemm::WarmUp(const GemmScheme& scheme,
                             const std::shared_ptr<const CudaWeights>& weights,
                             const GemmMemory& memory, cudaStream_t stream) {
  if (scheme.prepares) {
    RETURN_IF_ERROR(
        GrowBuffer(scheme.padded_rows() * OperandStride(weights->k()) *
                       SizeOf(scheme.operand_type),
                   prepared_));
  }
  for (const PlannedLaunch& launch : scheme.launches) {
    RETURN_IF_ERROR(stream_scratch_.ReserveHanded(stream));
    if (!IsOnlyKernel(launch.path)) continue;
    RETURN_IF_ERROR(
        GrowBuffer(launch.padded_rows * PreparedRowBytes(launch.path, *weights),
                   prepared_));
  }
  RETURN_IF_ERROR(Enqueue(scheme, weights, memory, stream));
  return ToStatus(cudaStreamSynchronize(stream), "warm up");
}

absl::Status GpuGemm::Prepare(const GemmScheme& scheme,
                              const PlannedLaunch& launch,
                              const GemmMemory& memory, cudaStream_t stream) {
  const int64_t k = scheme.bench_case.shape.k;
  PrepareRowsArgs args;
  args.a = memory.a + launch.row * k * SizeOf(scheme.bench_case.dtype);
  args.a_type = scheme.bench_case.dtype;
  args.m = launch.rows;
  args.k = k;
  args.out_type = scheme.operand_type;
  args.ldo = OperandStride(k);
  args.out =
      prepared_.data() + launch.row * args.ldo * SizeOf(scheme.operand_type);
  return ToStatus(LaunchPrepareRows(args, stream), "prepare activations");
}

absl::Status GpuGemm::EnqueueOnlyKernel(const GemmScheme& scheme,
                                        const PlannedLaunch& launch,
                                        const CudaWeights& weights,
                                        const GemmMemory& memory,
                                        cudaStream_t stream) {
  const FloatType dtype = scheme.bench_case.dtype;
  const uint8_t* const a = memory.a + launch.row * weights.k() * SizeOf(dtype);
  uint8_t* const c = memory.c + launch.row * weights.n() * SizeOf(dtype);
  if (launch.path == KernelPath::kA32) {
    const A32Operands operands = {
        weights.tiled(), a, dtype, prepared_.data(), c, dtype, launch.rows};
    return ToStatus(LaunchA32Gemm(operands, stream),
                    "launch the kernel of mode A32");
  }
  const W4A8Operands operands = {weights.tiled(),
                                 a,
                                 dtype,
                                 prepared_.data(),
                                 c,
                                 dtype,
                                 launch.rows,
                                 stream_scratch_.handed.data()};
  const int kernel = W4A8KernelOf(scheme.bench_case.kernel, operands.weights,
                                  launch.rows, device_.traits);
  return ToStatus(LaunchW4A8Gemm(device_, operands, stream, kernel),
                  "launch the kernel of mode A8");
}

absl::Status GpuGemm::Enqueue(const GemmScheme& scheme,
                              const std::shared_ptr<const CudaWeights>& weights,
                              const GemmMemory& memory, cudaStream_t stream) {
  const uint8_t* const a = scheme.prepares ? prepared_.data() : memory.a;
  const int64_t a_row_bytes =
      OperandStride(weights->k()) * SizeOf(scheme.operand_type);
  const int64_t c_row_bytes = weights->n() * SizeOf(scheme.bench_case.dtype);
  for (const PlannedLaunch& launch : scheme.launches) {
    if (IsOnlyKernel(launch.path)) {
      RETURN_IF_ERROR(
          EnqueueOnlyKernel(scheme, launch, *weights, memory, stream));
      continue;
    }
    if (scheme.prepares) {
      RETURN_IF_ERROR(Prepare(scheme, launch, memory, stream));
    }
    const LaunchMemory launch_memory = {a + launch.row * a_row_bytes,
                                        memory.c + launch.row * c_row_bytes,
                                        stream_scratch_.handed.data()};
    if (launch.path != KernelPath::kCublas) {
      RETURN_IF_ERROR(EnqueueFused(scheme, launch, *weights, launch_memory,
                                   device_, stream));
      continue;
    }
    CublasGemmCall call = CallOf(scheme, launch, weights);
    call.a = launch_memory.a;
    call.c = launch_memory.c;
    call.scratch = &stream_scratch_;
    call.stream = stream;
    RETURN_IF_ERROR(cublas_->Enqueue(call));
  }
  return absl::OkStatus();
}

}  // namespace qgemm::cuda
