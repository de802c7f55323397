// SPDX-License-Identifier: Apache-2.0
//
// Three kernels. Where each op needs only columns that the same thread has
// made, a thread takes a chunk of columns through all ops and no thread waits.
// A lone TOP_K of a wide row is shared by the blocks of a cluster. Otherwise a
// block of threads takes a row through the ops, with a barrier between.

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/row_ops/columnwise.cuh"
#include "kernels/cuda/device/row_ops/held_row.cuh"
#include "kernels/cuda/device/row_ops/norms.cuh"
#include "kernels/cuda/device/row_ops/top_k.cuh"
#include "kernels/cuda/launch/row_ops.h"
#include "kernels/programs/op_fields.h"

namespace qgemm::cuda {
namespace {

// Threads of a block that has 1024 columns: even one row spreads over SMs.
constexpr int kColumnThreads = 128;
// Threads of a block that has a row: 4096 columns are one chunk a thread, and a
// thread may have 128 registers.
constexpr int kRowThreads = 512;

constexpr int64_t kLineBytes = 128;  // of the L2 cache

constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxGridY = 65535;

static_assert(sizeof(RowOps) <= 4096, "kernel parameters end at 4 KB");

// The chunk that a thread made last, in registers. As HeldRow.
class HeldChunk {
 public:
  __device__ __forceinline__ void Name(const DeviceRow& row) {
    elements_ = row.elements;
  }
  __device__ __forceinline__ void Keep(int /*first*/, const Chunk& chunk) {
    chunk_ = chunk;
  }
  __device__ __forceinline__ Chunk Read(const DeviceRow& row, int first,
                                        int count) const {
    return row.elements == elements_ ? chunk_ : LoadChunk(row, first, count);
  }

 private:
  Chunk chunk_ = {};
  const uint8_t* elements_ = nullptr;
};

// A kernel that waits for the one before is slow at first; its code has to be
// fetched, past weights that fill the L2 cache. So the first blocks rehearse
// while they wait: they compute a row of these elements, which stand for every
// operand and result. That saves 2 us a launch (bench/NOTES.md).
constexpr int64_t kRehearsal = -1;  // number of that row
constexpr int kMaxRehearsedWidth = 16384;
__device__ uint4 rehearsed_elements[kMaxRehearsedWidth / 4];
// SMs that the decode kernel leaves free have room for as many blocks; others
// start when it ends, and would begin late.
constexpr unsigned kRehearsingBlocks = 4;

__device__ __forceinline__ DeviceRow RowOf(const DeviceMatrix& matrix,
                                           int64_t row) {
  DeviceRow of = {static_cast<uint8_t*>(matrix.elements), matrix.type,
                  matrix.width};
  if (of.elements == nullptr) return of;
  if (row == kRehearsal) {
    of.elements = reinterpret_cast<uint8_t*>(rehearsed_elements);
  } else if (!matrix.one_row) {
    of.elements += row * matrix.width * BytesOf(matrix.type);
  }
  return of;
}

__device__ __forceinline__ ColumnwiseArgs ColumnwiseOf(const DeviceRowOp& op,
                                                       int64_t row) {
  return {{op.kind, op.activation, op.low, op.high},
          op.begin,
          RowOf(op.x, row),
          RowOf(op.y, row),
          RowOf(op.result, row)};
}

__device__ __forceinline__ NormArgs NormOf(const DeviceRowOp& op, int64_t row) {
  return {op.kind == OpKind::kLayerNorm,
          op.eps,
          op.group == 0 ? op.x.width : op.group,
          RowOf(op.x, row),
          RowOf(op.norm_weight, row),
          RowOf(op.norm_bias, row),
          RowOf(op.result, row)};
}

__device__ __forceinline__ TopKArgs TopKOf(const DeviceRowOp& op, int64_t row) {
  const int k = op.result.width;
  return {RowOf(op.x, row), k,
          reinterpret_cast<float*>(RowOf(op.result, row).elements),
          op.ids == nullptr ? nullptr : op.ids + row * k};
}

// Brings the line of this address into the L2 cache. Reads nothing, so that it
// may stand before GridDependencyWait.
__device__ __forceinline__ void PrefetchToL2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}

// Rows that stand for all rows are constants, of which nothing else brings
// the lines near before they are needed.
__device__ __forceinline__ void PrefetchConstant(const DeviceMatrix& matrix) {
  if (matrix.elements == nullptr || !matrix.one_row) return;
  const DeviceRow row = RowOf(matrix, 0);
  const int64_t bytes = row.width * BytesOf(row.type);
  for (int64_t at = int64_t{threadIdx.x} * kLineBytes; at < bytes;
       at += int64_t{blockDim.x} * kLineBytes) {
    PrefetchToL2(row.elements + at);
  }
}

__device__ __forceinline__ void PrefetchConstants(const RowOps& ops) {
  for (int i = 0; i < ops.count; ++i) {
    PrefetchConstant(ops.ops[i].y);
    PrefetchConstant(ops.ops[i].norm_weight);
    PrefetchConstant(ops.ops[i].norm_bias);
  }
}

__global__ void __launch_bounds__(kColumnThreads)
    ComputeColumns(const __grid_constant__ RowOps ops) {
  LaunchDependents();
  GridDependencyWait();
  const int first =
      static_cast<int>(blockIdx.x * kColumnThreads + threadIdx.x) * kChunk;
  for (int64_t row = blockIdx.y; row < ops.rows; row += gridDim.y) {
    HeldChunk held;
    for (int i = 0; i < ops.count; ++i) {
      if (first >= ops.ops[i].result.width) continue;
      const ColumnwiseArgs args = ColumnwiseOf(ops.ops[i], row);
      ComputeOwnChunk(args, first, held);
      held.Name(args.result);
    }
  }
}

struct RowScratch {
  union {
    HeldChunks<kRowThreads> held;
    TopKScratch<kRowThreads> top_k;
  };
  NormScratch<kRowThreads> norm;
};

__device__ __forceinline__ void ComputeOp(const DeviceRowOp& op, int64_t row,
                                          RowScratch& scratch,
                                          HeldRow<kRowThreads>& held) {
  if (op.kind == OpKind::kTopK) {
    held.Drop();
    const TopKArgs args = TopKOf(op, row);
    return TopKRow<kRowThreads>(args, {1, 0}, scratch.top_k).Compute();
  }
  if (op.kind == OpKind::kRmsNorm || op.kind == OpKind::kLayerNorm) {
    return ComputeNorm<kRowThreads>(NormOf(op, row), scratch.norm, held);
  }
  const ColumnwiseArgs args = ColumnwiseOf(op, row);
  for (int first = static_cast<int>(threadIdx.x) * kChunk;
       first < args.result.width; first += kRowThreads * kChunk) {
    ComputeOwnChunk(args, first, held);
  }
  held.Name(args.result);
}

__global__ void __launch_bounds__(kRowThreads)
    ComputeRows(const __grid_constant__ RowOps ops, bool rehearses) {
  __shared__ RowScratch scratch;
  LaunchDependents();
  PrefetchConstants(ops);
  const bool first_rehearses = rehearses && blockIdx.x < kRehearsingBlocks;
  int64_t row = first_rehearses ? kRehearsal : blockIdx.x;
  if (!first_rehearses) GridDependencyWait();
#pragma unroll 1
  while (row < ops.rows) {
    HeldRow<kRowThreads> held(scratch.held);
    for (int i = 0; i < ops.count; ++i) {
      ComputeOp(ops.ops[i], row, scratch, held);
      __syncthreads();
    }
    if (row == kRehearsal) {
      GridDependencyWait();
      row = blockIdx.x;
    } else {
      row += gridDim.x;
    }
  }
}

__global__ void __launch_bounds__(kRowThreads)
    ComputeWideTopK(const __grid_constant__ DeviceRowOp op, int parts) {
  __shared__ TopKScratch<kRowThreads> scratch;
  LaunchDependents();
  GridDependencyWait();
  const int block = static_cast<int>(blockIdx.x);
  const TopKArgs args = TopKOf(op, block / parts);
  TopKRow<kRowThreads>(args, {parts, block % parts}, scratch).Compute();
}

// True if `op` reads `made` at other columns than it writes.
bool CrossesColumns(const DeviceRowOp& op, const DeviceMatrix& made) {
  if (op.begin != 0 && op.x.elements == made.elements) return true;
  return op.y.elements == made.elements && op.y.width != op.result.width;
}

// True if a thread that has the same columns of all ops reads no results but
// its own.
bool StaysInColumns(const RowOps& ops) {
  for (int i = 0; i < ops.count; ++i) {
    const DeviceRowOp& op = ops.ops[i];
    if (!IsColumnwise(op.kind)) return false;
    const bool crosses =
        std::any_of(ops.ops, &op, [&op](const DeviceRowOp& earlier) {
          return CrossesColumns(op, earlier.result);
        });
    if (crosses) return false;
  }
  return true;
}

bool IsLegal(const RowOps& ops) {
  if (ops.count < 1 || ops.count > kMaxRowOps || ops.rows < 1) return false;
  return std::all_of(ops.ops, ops.ops + ops.count, [](const DeviceRowOp& op) {
    if (op.kind != OpKind::kTopK) return op.kind != OpKind::kGemm;
    return op.result.width >= 1 && op.result.width <= kMaxTopK &&
           op.result.width <= op.x.width && op.x.width <= kMaxTopKWidth;
  });
}

// True if a rehearsal finds room for its rows. TOP_K does not rehearse: it
// takes long enough by itself.
bool CanRehearse(const RowOps& ops) {
  return std::all_of(ops.ops, ops.ops + ops.count, [](const DeviceRowOp& op) {
    return op.kind != OpKind::kTopK && op.x.width <= kMaxRehearsedWidth &&
           op.begin + op.result.width <= kMaxRehearsedWidth;
  });
}

// Columns of a block that shares a row, at least: fewer are read so fast that
// the cluster's barriers count for more.
constexpr int kLeastTopKColumns = 4096;
constexpr int kMaxTopKParts = 8;  // the largest cluster of any chip

// Blocks that share a row of a lone TOP_K; 1 for other ops.
int TopKPartsOf(const Device& device, const RowOps& ops) {
  const DeviceRowOp& op = ops.ops[0];
  if (ops.count != 1 || op.kind != OpKind::kTopK ||
      !device.traits.has_clusters()) {
    return 1;
  }
  int parts = 1;
  while (parts < kMaxTopKParts &&
         2 * parts * op.result.width <= kMaxCandidates &&
         2 * parts * kLeastTopKColumns <= op.x.width) {
    parts *= 2;
  }
  return ops.rows * parts <= kMaxGridX ? parts : 1;
}

dim3 ColumnGrid(const RowOps& ops) {
  int widest = 0;
  for (int i = 0; i < ops.count; ++i) {
    widest = std::max(widest, ops.ops[i].result.width);
  }
  return dim3(static_cast<unsigned>(CeilDiv(widest, kColumnThreads * kChunk)),
              static_cast<unsigned>(std::min(ops.rows, kMaxGridY)));
}

}  // namespace

cudaError_t LaunchRowOps(const Device& device, const RowOps& ops,
                         cudaStream_t stream) {
  if (!IsLegal(ops)) return cudaErrorInvalidValue;
  const int parts = TopKPartsOf(device, ops);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(parts), 1, 1};
  cudaLaunchConfig_t config = {};
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = parts > 1 ? 2 : 1;
  if (parts > 1) {
    config.gridDim = dim3(static_cast<unsigned>(ops.rows * parts));
    config.blockDim = dim3(kRowThreads);
    return cudaLaunchKernelEx(&config, ComputeWideTopK, ops.ops[0], parts);
  }
  if (StaysInColumns(ops)) {
    config.gridDim = ColumnGrid(ops);
    config.blockDim = dim3(kColumnThreads);
    return cudaLaunchKernelEx(&config, ComputeColumns, ops);
  }
  config.gridDim = dim3(static_cast<unsigned>(std::min(ops.rows, kMaxGridX)));
  config.blockDim = dim3(kRowThreads);
  return cudaLaunchKernelEx(&config, ComputeRows, ops, CanRehearse(ops));
}

}  // namespace qgemm::cuda
