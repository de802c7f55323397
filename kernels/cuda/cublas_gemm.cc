// SPDX-License-Identifier: Apache-2.0
//
// Dequantizes chunk i + 1 on a side stream while cuBLASLt multiplies chunk i.

#include "kernels/cuda/cublas_gemm.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/dequantize.h"
#include "kernels/cuda/launch/rows.h"
#include "kernels/cuda/plan/handed_sums.h"
#include "kernels/cuda/plan/n_chunk_plan.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

// The multiplication that starts the library.
constexpr int64_t kWarmUpRows = 64;
constexpr int64_t kWarmUpSide = 1024;

bool IsDense(const CudaWeights& weights) { return weights.shape().dense; }

// [n], or null.
const float* BiasOf(const CudaWeights& weights) {
  if (!weights.shape().has_bias) return nullptr;
  return IsDense(weights) ? weights.dense().bias() : weights.tiled().bias();
}

// Grows the buffer to at least `size_bytes`, once the stream has passed; its
// contents are lost.
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
float FactorOf(const CublasGemmCall& call) {
  // bf16 has the range of fp32, in which every weight is.
  if (IsDense(*call.weights) || call.operand_type != FloatType::kFloat16) {
    return 1.0f;
  }
  const TiledWeights& tiled = call.weights->tiled();
  // Codebook entries are at most 1 in the unit of the table, zeros at most 16.
  const float entry =
      1 + (tiled.layout.has_zeros ? 16 * tiled.zero_unit : 0.0f);
  const double bound =
      static_cast<double>(entry) * tiled.largest_scale * tiled.factor;
  if (!(bound > 0) || !std::isfinite(bound)) return 1.0f;
  // The largest weight comes near 2^15, half the range of fp16, so that small
  // ones stay clear of its subnormals.
  const int exponent = std::clamp(14 - std::ilogb(bound), -100, 100);
  return std::ldexp(1.0f, exponent);
}

// Rows of the layer and where they go.
struct NChunk {
  int64_t row_begin;
  int64_t rows;
  float factor;
  void* out;
};

absl::Status Convert(const CublasGemmCall& call, const NChunk& n_chunk,
                     cudaStream_t stream) {
  const CudaWeights& weights = *call.weights;
  const int64_t stride = OperandStride(weights.k());
  if (IsDense(weights)) {
    PrepareRowsArgs args;
    args.a = weights.dense().memory + n_chunk.row_begin * weights.k() * 2;
    args.a_type = weights.shape().dense_type;
    args.m = n_chunk.rows;
    args.k = weights.k();
    args.out_type = call.operand_type;
    args.out = n_chunk.out;
    args.ldo = stride;
    return ToStatus(LaunchPrepareRows(args, stream), "convert dense weights");
  }
  DequantizeArgs args;
  args.weights = weights.tiled();
  args.row_begin = n_chunk.row_begin;
  args.rows = n_chunk.rows;
  args.out_type = call.operand_type;
  args.out_factor = n_chunk.factor;
  args.out = n_chunk.out;
  args.ldo = stride;
  return ToStatus(LaunchDequantize(args, stream), "dequantize weights");
}

absl::Status CreateSide(StreamScratch& scratch) {
  if (scratch.side.get() != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(scratch.side_may_write, Event::Create(EventKind::kOrdering));
  ASSIGN_OR_RETURN(scratch.n_chunk_is_ready,
                   Event::Create(EventKind::kOrdering));
  ASSIGN_OR_RETURN(scratch.side, Stream::Create());
  return absl::OkStatus();
}

}  // namespace

struct CublasGemm::Scheme {
  bool converts = false;   // weights go through scratch
  bool uses_sums = false;  // C goes through fp32 sums
  int64_t m = 0;           // padded
  int64_t n = 0;
  int64_t stride = 0;  // of a row of operands
  int64_t n_chunk_rows = 0;
  float factor = 1;  // of the weights in scratch

  int64_t n_chunks() const { return CeilDiv(n, n_chunk_rows); }
  int64_t RowBegin(int64_t n_chunk) const { return n_chunk * n_chunk_rows; }
  int64_t Rows(int64_t n_chunk) const {
    return std::min(n_chunk_rows, n - RowBegin(n_chunk));
  }
};

absl::Status StreamScratch::ReserveHanded(cudaStream_t stream) {
  if (handed.size_bytes() >= kHandedBytes) return absl::OkStatus();
  ASSIGN_OR_RETURN(handed, DeviceBuffer::Allocate(kHandedBytes));
  return ToStatus(cudaMemsetAsync(handed.data(), 0, kHandedWordsBytes, stream),
                  "clear the words of sums that are handed over");
}

FloatType OperandType(const CudaWeights& weights, FloatType type) {
  if (!IsDense(weights) || weights.shape().dense_type == type) return type;
  return FloatType::kBFloat16;
}

bool NeedsFp32Sums(const CudaWeights& weights, FloatType operand_type,
                   FloatType c_type) {
  const bool stores_c = c_type == FloatType::kFloat32 || c_type == operand_type;
  return weights.shape().has_bias || !stores_c ||
         weights.n() * SizeOf(c_type) % LtMatmul::kOperandAlignment != 0;
}

absl::StatusOr<std::unique_ptr<CublasGemm>> CublasGemm::Create(
    const DeviceTraits& device) {
  ASSIGN_OR_RETURN(std::unique_ptr<LtMatmul> matmul, LtMatmul::Create());
  std::unique_ptr<CublasGemm> gemm(new CublasGemm(device, std::move(matmul)));
  RETURN_IF_ERROR(gemm->WarmUp());
  return gemm;
}

// cuBLASLt loads its kernels and the data of its heuristics at the first use:
// a first request on a dense layer took 50 ms for it on an H100.
absl::Status CublasGemm::WarmUp() {
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
    LtShape shape = {kWarmUpRows, kWarmUpSide, kWarmUpSide,
                     kWarmUpSide, kWarmUpSide, kWarmUpSide};
    shape.operand_type = type;
    shape.c_type = type;
    RETURN_IF_ERROR(matmul_->Enqueue(
        shape, {operands.data(), operands.data(), c, 1, workspace.data()},
        stream.get()));
  }
  return stream.Synchronize();
}

CublasGemm::Scheme CublasGemm::SchemeOf(const CublasGemmCall& call) const {
  const CudaWeights& weights = *call.weights;
  Scheme scheme;
  scheme.m = PaddedRows(call.m);
  scheme.n = weights.n();
  scheme.stride = OperandStride(weights.k());
  scheme.factor = FactorOf(call);
  scheme.converts = !IsDense(weights) ||
                    weights.shape().dense_type != call.operand_type ||
                    scheme.stride != weights.k();
  scheme.uses_sums = NeedsFp32Sums(weights, call.operand_type, call.c_type);
  const NChunkProblem problem =
      NChunkProblemOf(call.m, weights.n(), weights.k(), scheme.uses_sums);
  scheme.n_chunk_rows = scheme.converts ? NChunkRows(problem, device_)
                                        : std::min(scheme.n, problem.max_rows);
  return scheme;
}

absl::Status CublasGemm::GrowScratch(const CublasGemmCall& call,
                                     const Scheme& scheme) {
  StreamScratch& scratch = *call.scratch;
  RETURN_IF_ERROR(
      Grow(LtMatmul::kWorkspaceBytes, call.stream, scratch.workspace));
  const int64_t n_chunk_bytes = scheme.n_chunk_rows * scheme.stride * 2;
  if (scheme.converts) {
    RETURN_IF_ERROR(Grow(n_chunk_bytes, call.stream, scratch.n_chunks[0]));
  }
  if (scheme.converts && scheme.n_chunks() > 1) {
    RETURN_IF_ERROR(Grow(n_chunk_bytes, call.stream, scratch.n_chunks[1]));
    RETURN_IF_ERROR(CreateSide(scratch));
  }
  if (!scheme.uses_sums) return absl::OkStatus();
  return Grow(scheme.m * RoundUp(scheme.n_chunk_rows, 8) * 4, call.stream,
              scratch.sums);
}

absl::Status CublasGemm::ConvertNChunk(const CublasGemmCall& call,
                                       const Scheme& scheme, int64_t n_chunk,
                                       cudaStream_t stream) {
  return Convert(call,
                 {scheme.RowBegin(n_chunk), scheme.Rows(n_chunk), scheme.factor,
                  call.scratch->n_chunks[n_chunk % 2].data()},
                 stream);
}

// N-chunk i + 1 goes where N-chunk i - 1 was, so it may be written once
// everything before the multiplication of N-chunk i is done. That one is
// enqueued first: of two kernels that are ready, it is to have the device.
absl::Status CublasGemm::Enqueue(const CublasGemmCall& call) {
  const Scheme scheme = SchemeOf(call);
  RETURN_IF_ERROR(GrowScratch(call, scheme));
  StreamScratch& scratch = *call.scratch;
  if (scheme.converts) {
    RETURN_IF_ERROR(ConvertNChunk(call, scheme, 0, call.stream));
  }
  for (int64_t n_chunk = 0; n_chunk < scheme.n_chunks(); ++n_chunk) {
    const bool converts_next =
        scheme.converts && n_chunk + 1 < scheme.n_chunks();
    if (converts_next) {
      RETURN_IF_ERROR(scratch.side_may_write.Record(call.stream));
    }
    RETURN_IF_ERROR(MultiplyNChunk(call, scheme, n_chunk));
    if (!converts_next) continue;
    const cudaStream_t side = scratch.side.get();
    RETURN_IF_ERROR(scratch.side_may_write.EnqueueWait(side));
    RETURN_IF_ERROR(ConvertNChunk(call, scheme, n_chunk + 1, side));
    RETURN_IF_ERROR(scratch.n_chunk_is_ready.Record(side));
    RETURN_IF_ERROR(scratch.n_chunk_is_ready.EnqueueWait(call.stream));
  }
  return absl::OkStatus();
}

absl::Status CublasGemm::MultiplyNChunk(const CublasGemmCall& call,
                                        const Scheme& scheme, int64_t n_chunk) {
  const CudaWeights& weights = *call.weights;
  const int64_t row_begin = scheme.RowBegin(n_chunk);
  const uint8_t* const w =
      scheme.converts ? call.scratch->n_chunks[n_chunk % 2].data()
                      : weights.dense().memory + row_begin * weights.k() * 2;
  uint8_t* const c =
      static_cast<uint8_t*>(call.c) + row_begin * SizeOf(call.c_type);
  LtShape shape = {scheme.m,      scheme.Rows(n_chunk), scheme.stride,
                   scheme.stride, scheme.stride,        weights.n()};
  shape.operand_type = call.operand_type;
  shape.c_type = call.c_type;
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
