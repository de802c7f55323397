// SPDX-License-Identifier: Apache-2.0
//
// Inputs: a block of threads has a row, so that each row of the host's table is
// read once. Outputs: blocks in x are rows, in y their parts. Whatever does not
// depend on the reads that take a microsecond is done while they are under way.

#include <algorithm>
#include <cstring>

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
  int counted;  // values that counters tell of
};

// The row of this block, from the table that the host has just written. Lanes
// of one warp ask for it at once, since reads of one line of the host wait for
// each other, a microsecond each.
__device__ __forceinline__ HostRow ReadRow(const RowTable* host_table) {
  constexpr int kWords = sizeof(HostRow) / sizeof(uint64_t);
  __shared__ uint64_t words[kWords];
  if (threadIdx.x < kWords) {
    const auto* const from =
        reinterpret_cast<const uint64_t*>(&host_table->rows[blockIdx.x]);
    words[threadIdx.x] = __ldcv(from + threadIdx.x);
  }
  __syncthreads();
  HostRow row;
  memcpy(&row, words, sizeof(row));
  return row;
}

// The row of this block, which it leaves to the last kernel.
__device__ __forceinline__ HostRow FindRow(const BatchBeginArgs& begin) {
  HostRow row;
  if (begin.host_table != nullptr) {
    row = ReadRow(begin.host_table);
  } else if (blockIdx.x < begin.request.m) {
    row = begin.request;
    row.number = blockIdx.x;
  }
  if (threadIdx.x == 0) begin.table->rows[blockIdx.x] = row;
  return row;
}

// An element of a row, as far as it is known without the host's table.
struct Place {
  uint8_t* device = nullptr;  // null: none
  int64_t row_bytes_before;
  int64_t row_bytes;
  int64_t offset;  // in the row of its value
  bool is_16_bytes;
};

// Elements of a row.
struct ElementRange {
  int64_t begin;
  int64_t end;
};

// Elements of a thread that are under way together.
struct Places {
  Place at[kLoads];
};

// Finds this thread's elements from `begin` on. Parameters of a kernel come
// slowly when they are first read: called before the thread must wait.
template <int kThreads>
__device__ __forceinline__ Places Locate(const MovedElements& elements,
                                         const ElementRange& range,
                                         int64_t row) {
  Places places;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int64_t at = range.begin + i * kThreads + threadIdx.x;
    if (at >= range.end) continue;
    int number = 0;
    while (at >= elements.first[number + 1]) ++number;
    const MovedValue& value = elements.values[number];
    Place& place = places.at[i];
    place.is_16_bytes = elements.are_16_bytes[number];
    place.offset = (at - elements.first[number]) * (place.is_16_bytes ? 16 : 4);
    place.row_bytes_before = value.row_bytes_before;
    place.row_bytes = value.row_bytes;
    place.device = value.device + row * value.row_bytes + place.offset;
  }
  return places;
}

// Bytes from the start of the request to the element.
__device__ __forceinline__ int64_t HostOffset(const HostRow& row,
                                              const Place& place) {
  return row.m * place.row_bytes_before + row.number * place.row_bytes +
         place.offset;
}

__device__ __forceinline__ uint4 Load(const Place& place, const uint8_t* from) {
  if (place.is_16_bytes) return __ldcv(reinterpret_cast<const uint4*>(from));
  return {__ldcv(reinterpret_cast<const unsigned*>(from)), 0, 0, 0};
}

__device__ __forceinline__ void Store(const Place& place, const uint4& element,
                                      uint8_t* to) {
  if (place.is_16_bytes) {
    *reinterpret_cast<uint4*>(to) = element;
  } else {
    *reinterpret_cast<unsigned*>(to) = element.x;
  }
}

__device__ __forceinline__ void BringElements(const Places& places,
                                              const HostRow& row) {
  uint4 loaded[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const Place& place = places.at[i];
    if (place.device != nullptr) {
      loaded[i] = Load(place, row.inputs + HostOffset(row, place));
    }
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const Place& place = places.at[i];
    if (place.device != nullptr) Store(place, loaded[i], place.device);
  }
}

// Tells that the first inputs of this block's row are there. Readers bring
// them by the async proxy.
__device__ __forceinline__ void CountFirstInputs(BatchProgress* progress) {
  AsyncProxyFence();
  __syncthreads();
  if (threadIdx.x == 0) ReleaseCount(&progress->first_rows);
}

// PCIe brings what is asked for together at the same time.
__device__ __forceinline__ void AwaitFirstInputs(
    const BatchProgress* progress) {
  if (threadIdx.x == 0) AwaitCount(&progress->first_rows, gridDim.x);
  __syncthreads();
}

// Blocks of the second row of the grid, if there is one, bring the inputs
// behind the first.
__global__ void __launch_bounds__(kGatherThreads)
    GatherProgramRows(const __grid_constant__ MovedElements inputs,
                      const __grid_constant__ BatchBeginArgs begin_args) {
  constexpr int64_t kStep = kGatherThreads * kLoads;
  LaunchDependents();
  StampGatherBegin(begin_args.progress);
  const bool has_first = gridDim.y > 1;
  const bool is_first = has_first && blockIdx.y == 0;
  const int64_t boundary = inputs.first[begin_args.first_inputs];
  const int64_t begin = has_first && !is_first ? boundary : 0;
  const int64_t end = is_first ? boundary : inputs.first[inputs.count];
  const Places first = Locate<kGatherThreads>(inputs, {begin, end}, blockIdx.x);
  const HostRow row = FindRow(begin_args);
  if (has_first && !is_first) AwaitFirstInputs(begin_args.progress);
  if (row.inputs != nullptr) {
    BringElements(first, row);
    for (int64_t next = begin + kStep; next < end; next += kStep) {
      BringElements(Locate<kGatherThreads>(inputs, {next, end}, blockIdx.x),
                    row);
    }
  }
  if (is_first) CountFirstInputs(begin_args.progress);
  if (blockIdx.x == 0 && blockIdx.y == 0) {
    for (int i = threadIdx.x; i < begin_args.counter_count;
         i += kGatherThreads) {
      begin_args.counters[i] = 0;
    }
  }
  StampGatherEnd(begin_args.progress);
}

// Waits until elements of a row are there.
__device__ __forceinline__ void AwaitElements(const MovedElements& outputs,
                                              const ElementRange& range) {
  if (range.end > outputs.first[outputs.counted]) {
    GridDependencyWait();
    return;
  }
  if (threadIdx.x == 0) {
    for (int number = 0; number < outputs.counted; ++number) {
      if (outputs.first[number] >= range.end ||
          outputs.first[number + 1] <= range.begin) {
        continue;
      }
      const MovedValue& value = outputs.values[number];
      AwaitCount(value.made, value.made_count);
    }
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kScatterThreads)
    ScatterProgramRows(const __grid_constant__ MovedElements outputs,
                       const RowTable* table,
                       const __grid_constant__ BatchEndArgs end) {
  constexpr int64_t kStep = kScatterThreads * kLoads;
  const int64_t begin = blockIdx.y * kStep;
  const ElementRange range = {begin,
                              min(begin + kStep, outputs.first[outputs.count])};
  const Places places = Locate<kScatterThreads>(outputs, range, blockIdx.x);
  AwaitElements(outputs, range);
  const ScatterStart start = StartScatter(end.progress);
  const HostRow row = table->rows[blockIdx.x];
  uint4 loaded[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const Place& place = places.at[i];
    if (place.device != nullptr) loaded[i] = Load(place, place.device);
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const Place& place = places.at[i];
    if (place.device != nullptr && row.outputs != nullptr) {
      Store(place, loaded[i], row.outputs + HostOffset(row, place));
    }
  }
  StampScatter(end.progress, start, end.stamps);
}

bool IsLegal(const MovedValues& moved, int64_t rows) {
  if (moved.count < 1 || moved.count > kMaxMovedValues || rows < 1 ||
      rows > kMaxTableRows) {
    return false;
  }
  return std::all_of(
      moved.values, moved.values + moved.count, [](const MovedValue& value) {
        return value.row_bytes > 0 &&
               (value.made == nullptr || value.made_count > 0) &&
               value.row_bytes % kMovedValueAlignment == 0 &&
               value.row_bytes_before % kMovedValueAlignment == 0 &&
               reinterpret_cast<uintptr_t>(value.device) % 16 == 0;
      });
}

bool CountedComeFirst(const MovedValues& moved) {
  return std::is_partitioned(
      moved.values, moved.values + moved.count,
      [](const MovedValue& value) { return value.made != nullptr; });
}

MovedElements ElementsOf(const MovedValues& moved) {
  MovedElements elements = {};
  elements.count = moved.count;
  for (int i = 0; i < moved.count; ++i) {
    const MovedValue& value = moved.values[i];
    elements.values[i] = value;
    if (value.made != nullptr) elements.counted = i + 1;
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
  if (!IsLegal(inputs, rows) || begin.first_inputs < 0 ||
      begin.first_inputs >= inputs.count) {
    return cudaErrorInvalidValue;
  }
  const dim3 grid(static_cast<unsigned>(rows), begin.first_inputs > 0 ? 2 : 1);
  GatherProgramRows<<<grid, kGatherThreads, 0, stream>>>(ElementsOf(inputs),
                                                         begin);
  return cudaGetLastError();
}

cudaError_t LaunchScatterProgramRows(const MovedValues& outputs, int64_t rows,
                                     const RowTable* table,
                                     const BatchEndArgs& end,
                                     cudaStream_t stream) {
  if (!IsLegal(outputs, rows) || !CountedComeFirst(outputs)) {
    return cudaErrorInvalidValue;
  }
  const MovedElements elements = ElementsOf(outputs);
  const int64_t parts =
      CeilDiv(elements.first[elements.count], kScatterThreads * kLoads);
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(rows), static_cast<unsigned>(parts));
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
