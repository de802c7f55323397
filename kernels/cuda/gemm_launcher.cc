// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/gemm_launcher.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/a32_gemm.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/rows.h"
#include "kernels/cuda/launch/w4a8_gemm.h"
#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/a32_plan.h"
#include "kernels/cuda/plan/n_chunk_plan.h"
#include "kernels/cuda/plan/w4a8_plan.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/host/batch_checks.h"

namespace qgemm::cuda {
namespace {

absl::Status Prepare(const GemmJob& job, const PlannedLaunch& launch,
                     const LaunchMemory& memory, cudaStream_t stream) {
  PrepareRowsArgs args;
  args.a = memory.a;
  args.a_type = job.a_type;
  args.m = launch.rows;
  args.k = job.weights->k();
  // Only dense layers are read in another type than rounded to: no
  // permutation, and rounding to fp16 shows in bf16 too.
  if (job.shape.rounded_row_bytes > 0) {
    // One long row: the second pass reads rows without gaps.
    args.m = 1;
    args.k = launch.rows * job.weights->k();
    args.out_type = job.rounded_type;
    args.out = memory.rounded;
    args.ldo = RoundUp(args.k, 8);
    RETURN_IF_ERROR(
        ToStatus(LaunchPrepareRows(args, stream), "round activations"));
    args.a = args.out;
    args.a_type = job.rounded_type;
    args.m = launch.rows;
    args.k = job.weights->k();
  }
  if (job.weights->shape().has_permutation) {
    args.permutation = job.weights->tiled().permutation();
  }
  args.out_type = job.operand_type;
  args.out = memory.prepared;
  args.ldo = OperandStride(args.k);
  return ToStatus(LaunchPrepareRows(args, stream), "prepare activations");
}

absl::Status MultiplyByCublas(const GemmJob& job, const PlannedLaunch& launch,
                              const uint8_t* a, uint8_t* c,
                              StreamScratch& scratch, CublasGemm& cublas,
                              cudaStream_t stream) {
  CublasGemmCall call;
  call.weights = job.weights;
  call.a = a;
  call.operand_type = job.operand_type;
  call.c = c;
  call.c_type = job.c_type;
  call.m = launch.rows;
  call.scratch = &scratch;
  call.stream = stream;
  return cublas.Enqueue(call);
}

// Quantizes the launch's rows, and multiplies them.
absl::Status MultiplyInIntegers(const GemmJob& job, const PlannedLaunch& launch,
                                const LaunchMemory& memory,
                                const Device& device, uint8_t* handed,
                                cudaStream_t stream) {
  W4A8Operands operands;
  operands.weights = job.weights->tiled();
  operands.a = memory.a;
  operands.a_type = job.a_type;
  operands.quantized = memory.prepared;
  operands.c = memory.c;
  operands.c_type = job.c_type;
  operands.m = launch.rows;
  operands.handed = handed;
  return ToStatus(LaunchW4A8Gemm(device, operands, stream),
                  "launch the kernel of mode A8");
}

// Splits the launch's rows into parts, and multiplies those.
absl::Status MultiplyParts(const GemmJob& job, const PlannedLaunch& launch,
                           const LaunchMemory& memory, cudaStream_t stream) {
  A32Operands operands;
  operands.weights = job.weights->tiled();
  operands.a = memory.a;
  operands.a_type = job.a_type;
  operands.split = memory.prepared;
  operands.c = memory.c;
  operands.c_type = job.c_type;
  operands.m = launch.rows;
  return ToStatus(LaunchA32Gemm(operands, stream),
                  "launch the kernel of mode A32");
}

// True if codes of 4 bits are the numbers that the kernel of mode A32 takes
// them for.
bool CodesAreNumbers(const CudaWeights& weights) {
  const TiledWeights& tiled = weights.tiled();
  if (tiled.layout.codes != 4) return true;
  float number = -8;
  for (const float value : weights.codebook()) {
    if (value != number * tiled.zero_unit) return false;
    number += 1;
  }
  return true;
}

bool OffersA32(const CudaWeights& weights) {
  return !weights.shape().dense && weights.shape().integer_codes &&
         OffersA32(weights.tiled().layout) && CodesAreNumbers(weights);
}

bool OffersA8(const CudaWeights& weights) {
  return !weights.shape().dense && weights.shape().supports_a8 &&
         !weights.shape().has_permutation && OffersW4A8(weights.tiled().layout);
}

bool Offers(const CudaWeights& weights, ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kA16:
      return true;
    case ComputeMode::kA8:
      return OffersA8(weights);
    case ComputeMode::kA32:
      return OffersA32(weights);
  }
  return false;
}

std::string OfferedModes(const CudaWeights& weights) {
  std::string modes;
  for (const ComputeMode mode :
       {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
    if (!Offers(weights, mode)) continue;
    absl::StrAppend(&modes, modes.empty() ? "" : ", ", Name(mode));
  }
  return modes;
}

// The job of mode A8 or A32, whose rows have the same bits whatever their
// number: all requests share launches.
GemmJob MakeOnlyKernelJob(std::shared_ptr<const CudaWeights> weights,
                          const MatmulSignature& signature) {
  const bool is_a8 = signature.mode == ComputeMode::kA8;
  GemmJob job;
  job.mode = signature.mode;
  job.a_type = signature.a_type;
  job.c_type = signature.c_type;
  job.layer = weights->layer_shape(/*needs_fp32_sums=*/false);
  job.shape.a_row_bytes = weights->k() * SizeOf(job.a_type);
  const int64_t k_tiles = weights->tiled().layout.k_tiles;
  job.shape.prepared_row_bytes =
      is_a8 ? Q8RoomOfRow(k_tiles) : k_tiles * kA32RowBytes;
  job.shape.c_row_bytes = weights->n() * SizeOf(job.c_type);
  job.shape.max_shared_rows = std::numeric_limits<int64_t>::max();
  job.shape.shared_path = is_a8 ? KernelPath::kW4A8 : KernelPath::kA32;
  job.weights = std::move(weights);
  return job;
}

}  // namespace

absl::Status CheckSignature(const CudaWeights& weights,
                            const MatmulSignature& signature) {
  if (!Offers(weights, signature.mode)) {
    return absl::UnimplementedError(absl::StrCat(
        "mode ", Name(signature.mode),
        " has no kernel for these weights; the cuda backend offers ",
        OfferedModes(weights)));
  }
  return CheckRounding(signature);
}

// The one place that chooses kernels: launches carry their path from here on.
GemmJob MakeGemmJob(std::shared_ptr<const CudaWeights> weights,
                    const MatmulSignature& signature,
                    const LaunchEnvironment& environment) {
  if (signature.mode != ComputeMode::kA16) {
    return MakeOnlyKernelJob(std::move(weights), signature);
  }
  GemmJob job;
  const bool rounds = signature.a_type == FloatType::kFloat32;
  const int64_t k = weights->k();
  job.a_type = signature.a_type;
  job.rounded_type = rounds ? signature.rounding : signature.a_type;
  job.operand_type = OperandType(*weights, job.rounded_type);
  job.c_type = signature.c_type;
  job.layer = weights->layer_shape(
      NeedsFp32Sums(*weights, job.operand_type, job.c_type));
  job.shape.a_row_bytes = k * SizeOf(job.a_type);
  if (rounds && job.operand_type != job.rounded_type) {
    job.shape.rounded_row_bytes = k * SizeOf(job.rounded_type);
  }
  if (weights->shape().has_permutation || job.operand_type != job.a_type ||
      OperandStride(k) != k) {
    job.shape.prepared_row_bytes = OperandStride(k) * SizeOf(job.operand_type);
  }
  job.shape.c_row_bytes = weights->n() * SizeOf(job.c_type);
  const KernelPolicy& policy = *environment.policy;
  job.shape.max_shared_rows = MaxSharedRows(job.layer, policy);
  job.shape.shared_path =
      ChooseKernelPath(job.layer, /*m=*/1, environment.device->traits, policy)
          .path;
  job.weights = std::move(weights);
  return job;
}

absl::Status EnqueueGemm(const GemmJob& job, const PlannedLaunch& launch,
                         const LaunchMemory& memory,
                         const LaunchEnvironment& environment,
                         StreamScratch& stream_scratch, cudaStream_t stream) {
  if (launch.path == KernelPath::kW4A8) {
    return MultiplyInIntegers(job, launch, memory, *environment.device,
                              stream_scratch.handed.data(), stream);
  }
  if (launch.path == KernelPath::kA32) {
    return MultiplyParts(job, launch, memory, stream);
  }
  const uint8_t* a = memory.a;
  if (job.shape.prepared_row_bytes > 0) {
    RETURN_IF_ERROR(Prepare(job, launch, memory, stream));
    a = memory.prepared;
  }
  if (launch.path == KernelPath::kCublas) {
    return MultiplyByCublas(job, launch, a, memory.c, stream_scratch,
                            *environment.cublas, stream);
  }
  GemmOperands operands;
  operands.weights = job.weights->tiled();
  operands.a = a;
  operands.lda = OperandStride(job.weights->k());
  operands.a_type = job.operand_type;
  operands.c = memory.c;
  operands.c_type = job.c_type;
  operands.m = launch.rows;
  operands.handed = stream_scratch.handed.data();
  const Device& device = *environment.device;
  if (launch.path == KernelPath::kDecode) {
    return ToStatus(LaunchDecodeGemm(device, operands, stream),
                    "launch the decode kernel");
  }
  return ToStatus(LaunchPrefillGemm(device, operands, stream),
                  "launch the prefill kernel");
}

}  // namespace qgemm::cuda
