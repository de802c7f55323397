// SPDX-License-Identifier: Apache-2.0
//
// Cuts a layer into slabs of rows, and each slab into its launches.

#include "kernels/cuda/large_gemm.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/add_bias.h"
#include "kernels/cuda/launch/dequantize.h"
#include "kernels/cuda/launch/prepare_rows.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/stream.h"

namespace qgemm::cuda {
namespace {

// A slab of weights is written and read once each M: small enough for the
// second-level cache of an A100 (40 MB) and an H100 (50 MB), with A beside.
constexpr int64_t kSlabBytes = int64_t{20} << 20;
// Sums in fp32 of a slab.
constexpr int64_t kSumsBytes = int64_t{64} << 20;
// Rows of a slab: a multiple, where there are as many.
constexpr int64_t kSlabUnit = 128;
constexpr int64_t kRowUnit = 64;
// The multiplication that starts the library.
constexpr int64_t kWarmUpRows = 64;
constexpr int64_t kWarmUpSide = 1024;

bool IsDense(const CudaWeights& weights) { return weights.traits().dense; }

// [n], or null.
const float* BiasOf(const CudaWeights& weights) {
  if (!weights.traits().has_bias) return nullptr;
  return IsDense(weights) ? weights.dense().bias() : weights.tiled().bias();
}

// What one layer and call come to.
struct Scheme {
  bool converts = false;   // weights go through scratch
  bool uses_sums = false;  // C goes through fp32 sums
  int64_t m = 0;           // padded
  int64_t stride = 0;      // of a row of operands
  int64_t slab_rows = 0;
};

// Rows that fit; a multiple of kSlabUnit if there are as many, else of a
// tile's 16.
int64_t FittingRows(int64_t bytes, int64_t row_bytes) {
  const int64_t rows = bytes / row_bytes;
  if (rows >= kSlabUnit) return rows / kSlabUnit * kSlabUnit;
  return std::max<int64_t>(kTileRows, rows / kTileRows * kTileRows);
}

Scheme SchemeOf(const LargeGemmCall& call) {
  const CudaWeights& weights = *call.weights;
  Scheme scheme;
  scheme.m = PaddedLargeRows(call.m);
  scheme.stride = LargeRowStride(weights.k());
  scheme.converts = !IsDense(weights) ||
                    weights.traits().dense_type != call.operand_type ||
                    scheme.stride != weights.k();
  // cuBLASLt stores fp32 or the type of the operands, without an fp32 bias.
  const bool stores_c =
      call.c_type == FloatType::kFloat32 || call.c_type == call.operand_type;
  scheme.uses_sums =
      BiasOf(weights) != nullptr || !stores_c ||
      weights.n() * SizeOf(call.c_type) % LtMatmul::kOperandAlignment != 0;
  int64_t rows = weights.n();
  if (scheme.converts) {
    rows = std::min(rows, FittingRows(kSlabBytes, scheme.stride * 2));
  }
  if (scheme.uses_sums) {
    rows = std::min(rows, FittingRows(kSumsBytes, scheme.m * 4));
  }
  scheme.slab_rows = rows;
  return scheme;
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

absl::Status GrowScratch(const Scheme& scheme, const LargeGemmCall& call) {
  LargeGemmScratch& scratch = *call.scratch;
  RETURN_IF_ERROR(
      Grow(LtMatmul::kWorkspaceBytes, call.stream, scratch.workspace));
  if (scheme.converts) {
    RETURN_IF_ERROR(Grow(scheme.slab_rows * scheme.stride * 2, call.stream,
                         scratch.weights));
  }
  if (!scheme.uses_sums) return absl::OkStatus();
  return Grow(scheme.m * RoundUp(scheme.slab_rows, 8) * 4, call.stream,
              scratch.sums);
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

// Rows of weights as cuBLASLt reads them, in scratch.
absl::Status ConvertSlab(const LargeGemmCall& call, int64_t row_begin,
                         int64_t rows, float factor) {
  const CudaWeights& weights = *call.weights;
  const int64_t stride = LargeRowStride(weights.k());
  void* const out = call.scratch->weights.data();
  if (IsDense(weights)) {
    PrepareRowsArgs args;
    args.a = weights.dense().memory + row_begin * weights.k() * 2;
    args.a_type = weights.traits().dense_type;
    args.m = rows;
    args.k = weights.k();
    args.out_type = call.operand_type;
    args.out = out;
    args.ldo = stride;
    return ToStatus(LaunchPrepareRows(args, call.stream),
                    "convert dense weights");
  }
  DequantizeArgs args;
  args.weights = weights.tiled();
  args.row_begin = row_begin;
  args.rows = rows;
  args.out_type = call.operand_type;
  args.out_factor = factor;
  args.out = out;
  args.ldo = stride;
  return ToStatus(LaunchDequantize(args, call.stream), "dequantize weights");
}

}  // namespace

int64_t PaddedLargeRows(int64_t m) { return RoundUp(m, kRowUnit); }

int64_t LargeRowStride(int64_t k) { return RoundUp(k, 8); }

FloatType LargeOperandType(const CudaWeights& weights, FloatType type) {
  if (!IsDense(weights) || weights.traits().dense_type == type) return type;
  return FloatType::kBFloat16;
}

absl::StatusOr<std::unique_ptr<LargeGemm>> LargeGemm::Create() {
  ASSIGN_OR_RETURN(std::unique_ptr<LtMatmul> matmul, LtMatmul::Create());
  std::unique_ptr<LargeGemm> gemm(new LargeGemm(std::move(matmul)));
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

absl::Status LargeGemm::Enqueue(const LargeGemmCall& call) {
  const Scheme scheme = SchemeOf(call);
  RETURN_IF_ERROR(GrowScratch(scheme, call));
  const float factor = FactorOf(call);
  const int64_t n = call.weights->n();
  for (int64_t row = 0; row < n; row += scheme.slab_rows) {
    const int64_t rows = std::min(scheme.slab_rows, n - row);
    RETURN_IF_ERROR(MultiplySlab(call, row, rows, factor));
  }
  return absl::OkStatus();
}

absl::Status LargeGemm::MultiplySlab(const LargeGemmCall& call,
                                     int64_t row_begin, int64_t rows,
                                     float factor) {
  const CudaWeights& weights = *call.weights;
  const Scheme scheme = SchemeOf(call);
  const uint8_t* w = nullptr;
  if (scheme.converts) {
    RETURN_IF_ERROR(ConvertSlab(call, row_begin, rows, factor));
    w = call.scratch->weights.data();
  } else {
    w = weights.dense().memory + row_begin * weights.k() * 2;
  }
  uint8_t* const c =
      static_cast<uint8_t*>(call.c) + row_begin * SizeOf(call.c_type);
  LtShape shape = {scheme.m,      rows,          scheme.stride,
                   scheme.stride, scheme.stride, weights.n()};
  shape.operand_type = call.operand_type;
  shape.c_type = call.c_type;
  shape.sums = call.sums;
  LtOperands operands = {call.a, w, c, 1 / factor,
                         call.scratch->workspace.data()};
  if (!scheme.uses_sums) return matmul_->Enqueue(shape, operands, call.stream);
  shape.c_type = FloatType::kFloat32;
  shape.c_stride = RoundUp(rows, 8);
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
  last.n = rows;
  return ToStatus(LaunchAddBias(last, call.stream), "add the bias");
}

}  // namespace qgemm::cuda
