// SPDX-License-Identifier: Apache-2.0
//
// Inputs: a block of threads has a row, so that each row of the host's table is
// read once. Outputs: blocks in y are rows, in x their parts.

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/launch/batch_stamps.cuh"
#include "kernels/cuda/launch/program_rows.h"

namespace qgemm::cuda {
namespace {

constexpr int kGatherThreads = 1024;
constexpr int kScatterThreads = 256;
// Loads of a thread that are under way at a time: a PCIe read takes about a
// microsecond.
constexpr int kLoads = 2;

// The device side of MovedValues: elements of 16 bytes, or 4 where a value is
// not aligned to more, numbered through all values of a row.
struct MovedElements {
  MovedValue values[kMaxMovedValues];
  bool are_16_bytes[kMaxMovedValues];
  int64_t first[kMaxMovedValues + 1];
  int count;
};

// Bytes from the start of the request to the row of a value.
__device__ __forceinline__ int64_t HostOffset(const HostRow& row,
                                              const MovedValue& value) {
  return row.m * value.row_bytes_before + row.number * value.row_bytes;
}

// The table's row of this block, which the host has just written. One thread
// reads it, and leaves it to the last kernel.
__device__ __forceinline__ HostRow BringRow(const RowTable* host_table,
                                            RowTable* table) {
  __shared__ HostRow shared;
  if (threadIdx.x == 0) {
    const auto* const from =
        reinterpret_cast<const ulonglong2*>(&host_table->rows[blockIdx.x]);
    const ulonglong2 pointers = __ldcv(from);
    const ulonglong2 numbers = __ldcv(from + 1);
    shared.inputs = reinterpret_cast<const uint8_t*>(pointers.x);
    shared.outputs = reinterpret_cast<uint8_t*>(pointers.y);
    shared.m = static_cast<int64_t>(numbers.x);
    shared.number = static_cast<int64_t>(numbers.y);
    table->rows[blockIdx.x] = shared;
  } else if (threadIdx.x == 32 && blockIdx.x == 0) {
    table->sequence = __ldcv(&host_table->sequence);
  }
  __syncthreads();
  return shared;
}

// One element on both sides.
struct Move {
  const uint8_t* from;
  uint8_t* to;
  bool is_16_bytes;
};

__device__ __forceinline__ uint4 Load(const Move& move) {
  if (move.is_16_bytes)
    return __ldcv(reinterpret_cast<const uint4*>(move.from));
  return {__ldcv(reinterpret_cast<const unsigned*>(move.from)), 0, 0, 0};
}

__device__ __forceinline__ void Store(const Move& move, const uint4& element) {
  if (move.is_16_bytes) {
    *reinterpret_cast<uint4*>(move.to) = element;
  } else {
    *reinterpret_cast<unsigned*>(move.to) = element.x;
  }
}

// Moves elements from `begin` on, as many as a block's threads have under way.
// `move_of(value, offset in its row)` has the addresses.
template <int kThreads, typename MoveOf>
__device__ __forceinline__ void MoveElements(const MovedElements& elements,
                                             int64_t begin,
                                             const MoveOf& move_of) {
  Move moves[kLoads];
  uint4 loaded[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int64_t at = begin + i * kThreads + threadIdx.x;
    moves[i].from = nullptr;
    if (at >= elements.first[elements.count]) continue;
    int value = 0;
    while (at >= elements.first[value + 1]) ++value;
    const bool are_16_bytes = elements.are_16_bytes[value];
    const int64_t offset =
        (at - elements.first[value]) * (are_16_bytes ? 16 : 4);
    moves[i] = move_of(elements.values[value], offset);
    moves[i].is_16_bytes = are_16_bytes;
    loaded[i] = Load(moves[i]);
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    if (moves[i].from != nullptr) Store(moves[i], loaded[i]);
  }
}

__global__ void __launch_bounds__(kGatherThreads)
    GatherProgramRows(const __grid_constant__ MovedElements inputs,
                      const __grid_constant__ BatchBeginArgs begin_args) {
  LaunchDependents();
  StampGatherBegin(begin_args.progress);
  const HostRow row = BringRow(begin_args.host_table, begin_args.table);
  if (blockIdx.x == 0) {
    for (int i = threadIdx.x; i < begin_args.counter_count;
         i += kGatherThreads) {
      begin_args.counters[i] = 0;
    }
  }
  const int64_t end = row.inputs == nullptr ? 0 : inputs.first[inputs.count];
  for (int64_t begin = 0; begin < end; begin += kGatherThreads * kLoads) {
    MoveElements<kGatherThreads>(
        inputs, begin, [&](const MovedValue& value, int64_t offset) {
          return Move{row.inputs + HostOffset(row, value) + offset,
                      value.device + blockIdx.x * value.row_bytes + offset};
        });
  }
  StampGatherEnd(begin_args.progress);
}

__global__ void __launch_bounds__(kScatterThreads)
    ScatterProgramRows(const __grid_constant__ MovedElements outputs,
                       const RowTable* table,
                       const __grid_constant__ BatchEndArgs end) {
  GridDependencyWait();
  const unsigned long long begin = NowNanos();  // NOLINT
  const HostRow row = table->rows[blockIdx.y];
  if (row.outputs != nullptr) {
    MoveElements<kScatterThreads>(
        outputs, int64_t{blockIdx.x} * (kScatterThreads * kLoads),
        [&](const MovedValue& value, int64_t offset) {
          return Move{value.device + blockIdx.y * value.row_bytes + offset,
                      row.outputs + HostOffset(row, value) + offset};
        });
  }
  StampScatter(end.progress, begin, end.stamps, table->sequence);
}

bool IsLegal(const MovedValues& moved, int64_t rows) {
  if (moved.count < 1 || moved.count > kMaxMovedValues || rows < 1 ||
      rows > kMaxTableRows) {
    return false;
  }
  return std::all_of(
      moved.values, moved.values + moved.count, [](const MovedValue& value) {
        return value.row_bytes > 0 &&
               value.row_bytes % kMovedValueAlignment == 0 &&
               value.row_bytes_before % kMovedValueAlignment == 0 &&
               reinterpret_cast<uintptr_t>(value.device) % 16 == 0;
      });
}

MovedElements ElementsOf(const MovedValues& moved) {
  MovedElements elements = {};
  elements.count = moved.count;
  for (int i = 0; i < moved.count; ++i) {
    const MovedValue& value = moved.values[i];
    elements.values[i] = value;
    elements.are_16_bytes[i] =
        value.row_bytes % 16 == 0 && value.row_bytes_before % 16 == 0;
    elements.first[i + 1] =
        elements.first[i] +
        value.row_bytes / (elements.are_16_bytes[i] ? 16 : 4);
  }
  return elements;
}

}  // namespace

cudaError_t LaunchGatherProgramRows(const MovedValues& inputs, int64_t rows,
                                    const BatchBeginArgs& begin,
                                    cudaStream_t stream) {
  if (!IsLegal(inputs, rows)) return cudaErrorInvalidValue;
  GatherProgramRows<<<static_cast<unsigned>(rows), kGatherThreads, 0, stream>>>(
      ElementsOf(inputs), begin);
  return cudaGetLastError();
}

cudaError_t LaunchScatterProgramRows(const MovedValues& outputs, int64_t rows,
                                     const RowTable* table,
                                     const BatchEndArgs& end,
                                     cudaStream_t stream) {
  if (!IsLegal(outputs, rows)) return cudaErrorInvalidValue;
  const MovedElements elements = ElementsOf(outputs);
  const int64_t parts =
      CeilDiv(elements.first[elements.count], kScatterThreads * kLoads);
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(parts), static_cast<unsigned>(rows));
  config.blockDim = dim3(kScatterThreads);
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, ScatterProgramRows, elements, table, end);
}

}  // namespace qgemm::cuda
