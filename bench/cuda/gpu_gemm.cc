// SPDX-License-Identifier: Apache-2.0
//
// The backend's own plan cuts the rows; what it launches for a piece is
// launched here.

#include "bench/cuda/gpu_gemm.h"

#include "base/status_macros.h"
#include "bench/cuda/random_arena.h"
#include "kernels/cuda/launch/prepare_rows.h"
#include "kernels/cuda/launch/wqa16_gemm.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {
namespace {

FamilyChoice ChoiceOf(KernelChoice kernel) {
  switch (kernel) {
    case KernelChoice::kAuto:
      return FamilyChoice::kByRows;
    case KernelChoice::kSmall:
      return FamilyChoice::kAlwaysSmall;
    case KernelChoice::kWide:
      return FamilyChoice::kAlwaysWide;
    case KernelChoice::kLarge:
      return FamilyChoice::kAlwaysLarge;
  }
  return FamilyChoice::kByRows;
}

BatchShape ShapeOf(const GemmScheme& scheme, const CudaWeights& weights) {
  const int64_t element = SizeOf(scheme.bench_case.dtype);
  BatchShape shape;
  shape.a_row_bytes = weights.k() * element;
  if (scheme.prepares) {
    shape.prepared_row_bytes =
        LargeRowStride(weights.k()) * SizeOf(scheme.operand_type);
  }
  shape.c_row_bytes = weights.n() * element;
  shape.pads_small = weights.goes_by_slabs();
  FamilyPolicy policy;
  policy.choice = ChoiceOf(scheme.bench_case.kernel);
  shape.max_small_segment = MaxSmallSegment(policy, weights.chosen_layer());
  return shape;
}

// Device memory of a piece.
struct PieceMemory {
  const uint8_t* a;  // of the operand type
  uint8_t* c;
};

absl::Status EnqueueSmall(const GemmScheme& scheme, const Piece& piece,
                          const CudaWeights& weights, const PieceMemory& memory,
                          cudaStream_t stream) {
  GemmOperands operands;
  operands.weights = weights.tiled();
  operands.a = memory.a;
  operands.lda = LargeRowStride(weights.k());
  operands.a_type = scheme.operand_type;
  operands.c = memory.c;
  operands.c_type = scheme.bench_case.dtype;
  operands.m = piece.rows;
  return ToStatus(LaunchWqa16Gemm(operands, stream), "multiply few rows");
}

// But for where operands are.
LargeGemmCall CallOf(const GemmScheme& scheme, const Piece& piece,
                     const std::shared_ptr<const CudaWeights>& weights) {
  LargeGemmCall call;
  call.weights = weights;
  call.operand_type = scheme.operand_type;
  call.c_type = scheme.bench_case.dtype;
  call.m = piece.rows;
  call.sums =
      piece.family == Family::kSmall ? LtSums::kUnsplit : LtSums::kSplit;
  call.kernels = LargeKernelsOf(ChoiceOf(scheme.bench_case.kernel));
  return call;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuGemm>> GpuGemm::Create() {
  ASSIGN_OR_RETURN(std::unique_ptr<LargeGemm> large, LargeGemm::Create());
  return std::unique_ptr<GpuGemm>(new GpuGemm(std::move(large)));
}

GemmScheme GpuGemm::SchemeOf(const BenchCase& bench_case,
                             const CudaWeights& weights) {
  GemmScheme scheme;
  scheme.bench_case = bench_case;
  const MatmulSignature signature = bench_case.signature();
  const bool rounds = signature.a_type == FloatType::kFloat32;
  scheme.operand_type =
      LargeOperandType(weights, rounds ? signature.rounding : signature.a_type);
  scheme.prepares = scheme.operand_type != signature.a_type ||
                    LargeRowStride(weights.k()) != weights.k();
  BatchPlan plan;
  const RowSegment segment = {bench_case.m, nullptr, nullptr};
  plan.Make({&segment, 1}, ShapeOf(scheme, weights));
  scheme.pieces.assign(plan.pieces().begin(), plan.pieces().end());
  scheme.family =
      weights.traits().dense ? Family::kLarge : scheme.pieces.front().family;
  return scheme;
}

std::string GpuGemm::NameOfKernels(
    const GemmScheme& scheme,
    const std::shared_ptr<const CudaWeights>& weights) const {
  if (scheme.family == Family::kSmall) return "small";
  const LargeGemmCall call = CallOf(scheme, scheme.pieces.front(), weights);
  return large_->GoesWide(call) ? "wide" : "large";
}

absl::Status GpuGemm::WarmUp(const GemmScheme& scheme,
                             const std::shared_ptr<const CudaWeights>& weights,
                             const GemmMemory& memory, cudaStream_t stream) {
  if (scheme.prepares) {
    RETURN_IF_ERROR(
        GrowBuffer(scheme.padded_rows() * LargeRowStride(weights->k()) *
                       SizeOf(scheme.operand_type),
                   prepared_));
  }
  RETURN_IF_ERROR(Enqueue(scheme, weights, memory, stream));
  return ToStatus(cudaStreamSynchronize(stream), "warm up");
}

absl::Status GpuGemm::Prepare(const GemmScheme& scheme, const Piece& piece,
                              const GemmMemory& memory, cudaStream_t stream) {
  const int64_t k = scheme.bench_case.shape.k;
  PrepareRowsArgs args;
  args.a = memory.a + piece.row * k * SizeOf(scheme.bench_case.dtype);
  args.a_type = scheme.bench_case.dtype;
  args.m = piece.rows;
  args.k = k;
  args.out_type = scheme.operand_type;
  args.ldo = LargeRowStride(k);
  args.out =
      prepared_.data() + piece.row * args.ldo * SizeOf(scheme.operand_type);
  return ToStatus(LaunchPrepareRows(args, stream), "prepare activations");
}

absl::Status GpuGemm::Enqueue(const GemmScheme& scheme,
                              const std::shared_ptr<const CudaWeights>& weights,
                              const GemmMemory& memory, cudaStream_t stream) {
  const uint8_t* const a = scheme.prepares ? prepared_.data() : memory.a;
  const int64_t a_row_bytes =
      LargeRowStride(weights->k()) * SizeOf(scheme.operand_type);
  const int64_t c_row_bytes = weights->n() * SizeOf(scheme.bench_case.dtype);
  for (const Piece& piece : scheme.pieces) {
    if (scheme.prepares) {
      RETURN_IF_ERROR(Prepare(scheme, piece, memory, stream));
    }
    const PieceMemory piece_memory = {a + piece.row * a_row_bytes,
                                      memory.c + piece.row * c_row_bytes};
    if (scheme.family == Family::kSmall) {
      RETURN_IF_ERROR(
          EnqueueSmall(scheme, piece, *weights, piece_memory, stream));
      continue;
    }
    LargeGemmCall call = CallOf(scheme, piece, weights);
    call.a = piece_memory.a;
    call.c = piece_memory.c;
    call.scratch = &large_scratch_;
    call.stream = stream;
    RETURN_IF_ERROR(large_->Enqueue(call));
  }
  return absl::OkStatus();
}

}  // namespace qgemm::cuda
