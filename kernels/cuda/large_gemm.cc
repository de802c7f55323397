// SPDX-License-Identifier: Apache-2.0
//
// Each slab of rows comes to its launches, on two streams.

#include "kernels/cuda/large_gemm.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/add_bias.h"
#include "kernels/cuda/launch/dequantize.h"
#include "kernels/cuda/launch/prepare_rows.h"
#include "kernels/cuda/launch/wqa16_wide.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device_info.h"
#include "kernels/cuda/tuning/slab_plan.h"

namespace qgemm::cuda {
namespace {

// Sums in fp32 of a slab.
constexpr int64_t kSumsBytes = int64_t{64} << 20;
constexpr int64_t kRowUnit = 64;
// The multiplication that starts the library.
constexpr int64_t kWarmUpRows = 64;
constexpr int64_t kWarmUpSide = 1024;

// Of a slab whose sums have room; a multiple of a cuBLAS tile's side.
int64_t SumsRows(int64_t m) {
  const int64_t rows = kSumsBytes / (m * 4);
  return std::max<int64_t>(kSlabUnitRows, rows / kSlabUnitRows * kSlabUnitRows);
}

bool IsDense(const CudaWeights& weights) { return weights.traits().dense; }

// [n], or null.
const float* BiasOf(const CudaWeights& weights) {
  if (!weights.traits().has_bias) return nullptr;
  return IsDense(weights) ? weights.dense().bias() : weights.tiled().bias();
}

// At least `size_bytes`; what the buffer held is lost, once the stream has
// done with it.
absl::Status Grow(int64_t size_bytes, cudaStream_t stream,
                  DeviceBuffer& buffer) {
  if (buffer.size_bytes() >= size_bytes) return absl::OkStatus();
  RETURN_IF_ERROR(
      ToStatus(cudaStreamSynchronize(stream), "wait to grow scratch"));
  buffer = DeviceBuffer();
  ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(size_bytes));
  return absl::OkStatus();
}

// The power of two that brings the layer's weights into the range of the
// operands.
float FactorOf(const LargeGemmCall& call) {
  // bf16 has the range of fp32, in which every weight is.
  if (IsDense(*call.weights) || call.operand_type != FloatType::kFloat16) {
    return 1.0f;
  }
  const TiledWeights& tiled = call.weights->tiled();
  // Codebook entries are at most 1 in the unit of the table, zeros at most 16.
  const float entry =
      1 + (tiled.layout.has_zeros ? 16 * tiled.zero_unit : 0.0f);
  const double bound =
      static_cast<double>(entry) * call.weights->largest_scale() * tiled.factor;
  if (!(bound > 0) || !std::isfinite(bound)) return 1.0f;
  // The largest weight comes near 2^15, half the range of fp16, so that small
  // ones stay clear of its subnormals.
  const int exponent = std::clamp(14 - std::ilogb(bound), -100, 100);
  return std::ldexp(1.0f, exponent);
}

// Rows of the layer and where they go.
struct Slab {
  int64_t row_begin;
  int64_t rows;
  float factor;
  void* out;
};

absl::Status Convert(const LargeGemmCall& call, const Slab& slab,
                     cudaStream_t stream) {
  const CudaWeights& weights = *call.weights;
  const int64_t stride = LargeRowStride(weights.k());
  if (IsDense(weights)) {
    PrepareRowsArgs args;
    args.a = weights.dense().memory + slab.row_begin * weights.k() * 2;
    args.a_type = weights.traits().dense_type;
    args.m = slab.rows;
    args.k = weights.k();
    args.out_type = call.operand_type;
    args.out = slab.out;
    args.ldo = stride;
    return ToStatus(LaunchPrepareRows(args, stream), "convert dense weights");
  }
  DequantizeArgs args;
  args.weights = weights.tiled();
  args.row_begin = slab.row_begin;
  args.rows = slab.rows;
  args.out_type = call.operand_type;
  args.out_factor = slab.factor;
  args.out = slab.out;
  args.ldo = stride;
  return ToStatus(LaunchDequantize(args, stream), "dequantize weights");
}

absl::Status EnqueueWide(const LargeGemmCall& call) {
  GemmOperands operands;
  operands.weights = call.weights->tiled();
  operands.a = call.a;
  operands.lda = LargeRowStride(call.weights->k());
  operands.a_type = call.operand_type;
  operands.c = call.c;
  operands.c_type = call.c_type;
  operands.m = call.m;
  return ToStatus(LaunchWqa16Wide(operands, call.stream), "multiply many rows");
}

absl::Status CreateSide(LargeGemmScratch& scratch) {
  if (scratch.side.get() != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(scratch.side_may_write, Event::Create(EventKind::kOrdering));
  ASSIGN_OR_RETURN(scratch.slab_is_ready, Event::Create(EventKind::kOrdering));
  ASSIGN_OR_RETURN(scratch.side, Stream::Create());
  return absl::OkStatus();
}

}  // namespace

struct LargeGemm::Scheme {
  bool converts = false;   // weights go through scratch
  bool uses_sums = false;  // C goes through fp32 sums
  int64_t m = 0;           // padded
  int64_t n = 0;
  int64_t stride = 0;  // of a row of operands
  int64_t slab_rows = 0;
  float factor = 1;  // of the weights in scratch

  int64_t slabs() const { return CeilDiv(n, slab_rows); }
  int64_t RowBegin(int64_t slab) const { return slab * slab_rows; }
  int64_t Rows(int64_t slab) const {
    return std::min(slab_rows, n - RowBegin(slab));
  }
};

int64_t PaddedLargeRows(int64_t m) { return RoundUp(m, kRowUnit); }

int64_t LargeRowStride(int64_t k) { return RoundUp(k, 8); }

FloatType LargeOperandType(const CudaWeights& weights, FloatType type) {
  if (!IsDense(weights) || weights.traits().dense_type == type) return type;
  return FloatType::kBFloat16;
}

LargeKernels LargeKernelsOf(FamilyChoice choice) {
  if (choice == FamilyChoice::kAlwaysWide) return LargeKernels::kWide;
  if (choice == FamilyChoice::kAlwaysLarge) return LargeKernels::kCublas;
  return LargeKernels::kFastest;
}

absl::StatusOr<std::unique_ptr<LargeGemm>> LargeGemm::Create() {
  int index = 0;
  RETURN_IF_ERROR(ToStatus(cudaGetDevice(&index), "find the current GPU"));
  ASSIGN_OR_RETURN(const DeviceTraits device, QueryDevice(index));
  ASSIGN_OR_RETURN(std::unique_ptr<LtMatmul> matmul, LtMatmul::Create());
  std::unique_ptr<LargeGemm> gemm(new LargeGemm(device, std::move(matmul)));
  RETURN_IF_ERROR(gemm->WarmUp());
  return gemm;
}

// cuBLASLt loads its kernels and the data of its heuristics at the first use:
// a first request on a dense layer took 50 ms for it on an H100.
absl::Status LargeGemm::WarmUp() {
  const int64_t operand_bytes = kWarmUpSide * kWarmUpSide * 2;
  ASSIGN_OR_RETURN(const Stream stream, Stream::Create());
  ASSIGN_OR_RETURN(const DeviceBuffer workspace,
                   DeviceBuffer::Allocate(LtMatmul::kWorkspaceBytes));
  ASSIGN_OR_RETURN(const DeviceBuffer operands,
                   DeviceBuffer::Allocate(2 * operand_bytes));
  RETURN_IF_ERROR(ToStatus(
      cudaMemsetAsync(operands.data(), 0, operands.size_bytes(), stream.get()),
      "zero operands"));
  uint8_t* const c = operands.data() + operand_bytes;
  for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
    for (const LtSums sums : {LtSums::kUnsplit, LtSums::kSplit}) {
      LtShape shape = {kWarmUpRows, kWarmUpSide, kWarmUpSide,
                       kWarmUpSide, kWarmUpSide, kWarmUpSide};
      shape.operand_type = type;
      shape.c_type = type;
      shape.sums = sums;
      RETURN_IF_ERROR(matmul_->Enqueue(
          shape, {operands.data(), operands.data(), c, 1, workspace.data()},
          stream.get()));
    }
  }
  return stream.Synchronize();
}

bool LargeGemm::GoesWide(const LargeGemmCall& call) const {
  if (IsDense(*call.weights) || call.sums == LtSums::kUnsplit ||
      call.kernels == LargeKernels::kCublas) {
    return false;
  }
  const TileLayout& layout = call.weights->tiled().layout;
  if (!OffersWqa16Wide(layout)) return false;
  if (call.kernels == LargeKernels::kWide) return true;
  const Scheme scheme = SchemeOf(call);
  return Wqa16WideMicroseconds(layout, call.m) <=
         SlabMicroseconds({scheme.m, scheme.n, scheme.stride}, scheme.slab_rows,
                          device_);
}

LargeGemm::Scheme LargeGemm::SchemeOf(const LargeGemmCall& call) const {
  const CudaWeights& weights = *call.weights;
  Scheme scheme;
  scheme.m = PaddedLargeRows(call.m);
  scheme.n = weights.n();
  scheme.stride = LargeRowStride(weights.k());
  scheme.factor = FactorOf(call);
  scheme.converts = !IsDense(weights) ||
                    weights.traits().dense_type != call.operand_type ||
                    scheme.stride != weights.k();
  // cuBLASLt stores fp32 or the type of the operands, without an fp32 bias.
  const bool stores_c =
      call.c_type == FloatType::kFloat32 || call.c_type == call.operand_type;
  scheme.uses_sums =
      BiasOf(weights) != nullptr || !stores_c ||
      weights.n() * SizeOf(call.c_type) % LtMatmul::kOperandAlignment != 0;
  SlabProblem problem;
  problem.m = scheme.m;
  problem.n = scheme.n;
  problem.k = scheme.stride;
  if (scheme.uses_sums) problem.max_rows = SumsRows(scheme.m);
  scheme.slab_rows = scheme.converts ? SlabRows(problem, device_)
                                     : std::min(scheme.n, problem.max_rows);
  return scheme;
}

absl::Status LargeGemm::GrowScratch(const LargeGemmCall& call,
                                    const Scheme& scheme) {
  LargeGemmScratch& scratch = *call.scratch;
  RETURN_IF_ERROR(
      Grow(LtMatmul::kWorkspaceBytes, call.stream, scratch.workspace));
  const int64_t slab_bytes = scheme.slab_rows * scheme.stride * 2;
  if (scheme.converts) {
    RETURN_IF_ERROR(Grow(slab_bytes, call.stream, scratch.slabs[0]));
  }
  if (scheme.converts && scheme.slabs() > 1) {
    RETURN_IF_ERROR(Grow(slab_bytes, call.stream, scratch.slabs[1]));
    RETURN_IF_ERROR(CreateSide(scratch));
  }
  if (!scheme.uses_sums) return absl::OkStatus();
  return Grow(scheme.m * RoundUp(scheme.slab_rows, 8) * 4, call.stream,
              scratch.sums);
}

absl::Status LargeGemm::ConvertSlab(const LargeGemmCall& call,
                                    const Scheme& scheme, int64_t slab,
                                    cudaStream_t stream) {
  return Convert(call,
                 {scheme.RowBegin(slab), scheme.Rows(slab), scheme.factor,
                  call.scratch->slabs[slab % 2].data()},
                 stream);
}

// Slab i + 1 goes where slab i - 1 was, so it may be written once everything
// before the multiplication of slab i is done. That one is enqueued first: of
// two kernels that are ready, it is to have the device.
absl::Status LargeGemm::Enqueue(const LargeGemmCall& call) {
  if (GoesWide(call)) return EnqueueWide(call);
  const Scheme scheme = SchemeOf(call);
  RETURN_IF_ERROR(GrowScratch(call, scheme));
  LargeGemmScratch& scratch = *call.scratch;
  if (scheme.converts) {
    RETURN_IF_ERROR(ConvertSlab(call, scheme, 0, call.stream));
  }
  for (int64_t slab = 0; slab < scheme.slabs(); ++slab) {
    const bool converts_next = scheme.converts && slab + 1 < scheme.slabs();
    if (converts_next) {
      RETURN_IF_ERROR(scratch.side_may_write.Record(call.stream));
    }
    RETURN_IF_ERROR(MultiplySlab(call, scheme, slab));
    if (!converts_next) continue;
    const cudaStream_t side = scratch.side.get();
    RETURN_IF_ERROR(scratch.side_may_write.EnqueueWait(side));
    RETURN_IF_ERROR(ConvertSlab(call, scheme, slab + 1, side));
    RETURN_IF_ERROR(scratch.slab_is_ready.Record(side));
    RETURN_IF_ERROR(scratch.slab_is_ready.EnqueueWait(call.stream));
  }
  return absl::OkStatus();
}

absl::Status LargeGemm::MultiplySlab(const LargeGemmCall& call,
                                     const Scheme& scheme, int64_t slab) {
  const CudaWeights& weights = *call.weights;
  const int64_t row_begin = scheme.RowBegin(slab);
  const uint8_t* const w =
      scheme.converts ? call.scratch->slabs[slab % 2].data()
                      : weights.dense().memory + row_begin * weights.k() * 2;
  uint8_t* const c =
      static_cast<uint8_t*>(call.c) + row_begin * SizeOf(call.c_type);
  LtShape shape = {scheme.m,      scheme.Rows(slab), scheme.stride,
                   scheme.stride, scheme.stride,     weights.n()};
  shape.operand_type = call.operand_type;
  shape.c_type = call.c_type;
  shape.sums = call.sums;
  LtOperands operands = {call.a, w, c, 1 / scheme.factor,
                         call.scratch->workspace.data()};
  if (!scheme.uses_sums) return matmul_->Enqueue(shape, operands, call.stream);
  shape.c_type = FloatType::kFloat32;
  shape.c_stride = RoundUp(shape.n, 8);
  operands.c = call.scratch->sums.data();
  RETURN_IF_ERROR(matmul_->Enqueue(shape, operands, call.stream));
  AddBiasOperands last;
  last.sums = static_cast<const float*>(operands.c);
  last.sums_stride = shape.c_stride;
  const float* const bias = BiasOf(weights);
  if (bias != nullptr) last.bias = bias + row_begin;
  last.c = c;
  last.c_stride = weights.n();
  last.c_type = call.c_type;
  last.m = call.m;
  last.n = shape.n;
  return ToStatus(LaunchAddBias(last, call.stream), "add the bias");
}

}  // namespace qgemm::cuda
