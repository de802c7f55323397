// SPDX-License-Identifier: Apache-2.0
//
// Rows in global memory, read and written by chunks of eight columns: by 16
// bytes where the chunk is whole and stands on a multiple of 16, else by
// element. The type is a run-time value that all threads share.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_ELEMENTS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_ELEMENTS_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Consecutive columns that a thread reads, computes and writes together.
inline constexpr int kChunk = 8;

// Columns as numbers; those beyond the row's end may be any.
struct Chunk {
  float elements[kChunk];
};

// The same columns as they stand in memory: fp32 a word each, 16-bit elements
// in the first four words. Aligned so that words are loaded by 16 bytes.
struct alignas(16) RawChunk {
  uint32_t words[kChunk];
};

// One row of an operand or a result, borrowed.
struct DeviceRow {
  uint8_t* elements;  // null where an op has none
  FloatType type;
  int32_t width;
};

__device__ __forceinline__ int64_t BytesOf(FloatType type) {
  return type == FloatType::kFloat32 ? 4 : 2;
}

__device__ __forceinline__ bool IsAlignedTo16(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// The 16-bit element in the low half of `bits`; exact.
__device__ __forceinline__ float FromHalfBits(FloatType type, uint32_t bits) {
  if (type == FloatType::kBFloat16) return __uint_as_float(bits << 16);
  return __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
}

// Rounded to nearest even; what is beyond the type becomes an infinity.
__device__ __forceinline__ uint32_t ToHalfBits(FloatType type, float value) {
  if (type == FloatType::kBFloat16) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }
  return __half_as_ushort(__float2half_rn(value));
}

__device__ __forceinline__ float LoadElement(const DeviceRow& row, int column) {
  if (row.type == FloatType::kFloat32) {
    return reinterpret_cast<const float*>(row.elements)[column];
  }
  return FromHalfBits(row.type,
                      reinterpret_cast<const uint16_t*>(row.elements)[column]);
}

// Columns [first, first + count), count up to kChunk; none if it is below 1.
__device__ __forceinline__ RawChunk LoadRaw(const DeviceRow& row, int first,
                                            int count) {
  RawChunk raw = {};
  const uint8_t* const at = row.elements + first * BytesOf(row.type);
  const bool whole = count >= kChunk && IsAlignedTo16(at);
  if (row.type == FloatType::kFloat32) {
    if (whole) {
      *reinterpret_cast<uint4*>(&raw.words[0]) =
          *reinterpret_cast<const uint4*>(at);
      *reinterpret_cast<uint4*>(&raw.words[4]) =
          *reinterpret_cast<const uint4*>(at + sizeof(uint4));
      return raw;
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (i < count) raw.words[i] = reinterpret_cast<const uint32_t*>(at)[i];
    }
    return raw;
  }
  if (whole) {
    *reinterpret_cast<uint4*>(&raw.words[0]) =
        *reinterpret_cast<const uint4*>(at);
    return raw;
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    if (i >= count) continue;
    const uint32_t bits = reinterpret_cast<const uint16_t*>(at)[i];
    raw.words[i / 2] |= bits << (16 * (i % 2));
  }
  return raw;
}

__device__ __forceinline__ Chunk Unpack(FloatType type, const RawChunk& raw) {
  Chunk chunk;
  if (type == FloatType::kFloat32) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      chunk.elements[i] = __uint_as_float(raw.words[i]);
    }
    return chunk;
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    const uint32_t bits = raw.words[i / 2] >> (16 * (i % 2)) & 0xffff;
    chunk.elements[i] = FromHalfBits(type, bits);
  }
  return chunk;
}

__device__ __forceinline__ Chunk LoadChunk(const DeviceRow& row, int first,
                                           int count) {
  return Unpack(row.type, LoadRaw(row, first, count));
}

__device__ __forceinline__ void StoreWords(uint8_t* at, const Chunk& chunk,
                                           int count) {
  if (count >= kChunk && IsAlignedTo16(at)) {
    const float* const x = chunk.elements;
    reinterpret_cast<float4*>(at)[0] = make_float4(x[0], x[1], x[2], x[3]);
    reinterpret_cast<float4*>(at)[1] = make_float4(x[4], x[5], x[6], x[7]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    if (i < count) reinterpret_cast<float*>(at)[i] = chunk.elements[i];
  }
}

__device__ __forceinline__ void StoreHalves(uint8_t* at,
                                            const uint32_t (&bits)[kChunk],
                                            int count) {
  if (count >= kChunk && IsAlignedTo16(at)) {
    *reinterpret_cast<uint4*>(at) =
        make_uint4(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16,
                   bits[4] | bits[5] << 16, bits[6] | bits[7] << 16);
    return;
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    if (i < count) {
      reinterpret_cast<uint16_t*>(at)[i] = static_cast<uint16_t>(bits[i]);
    }
  }
}

// Rounds to columns [first, first + count) of the row, count up to kChunk, and
// leaves the rounded numbers in `chunk`.
__device__ __forceinline__ void RoundAndStore(const DeviceRow& row, int first,
                                              int count, Chunk& chunk) {
  uint8_t* const at = row.elements + first * BytesOf(row.type);
  if (row.type == FloatType::kFloat32) return StoreWords(at, chunk, count);
  uint32_t bits[kChunk];
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    bits[i] = ToHalfBits(row.type, chunk.elements[i]);
    chunk.elements[i] = FromHalfBits(row.type, bits[i]);
  }
  StoreHalves(at, bits, count);
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_ELEMENTS_CUH_
