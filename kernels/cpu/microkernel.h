// SPDX-License-Identifier: Apache-2.0
//
// What a microkernel is given and what it is: plain data only, as this is the
// one header of ours that files compiled for different instruction sets share.
//
// A microkernel multiplies mr activation rows with one tile of 16 weight rows
// over all of K, block of 32 by block of 32:
//   sums[r][lane] = sum_block scale[lane, block] *
//                   sum_k a[r][k] * (table[code[lane, k]] - zero[lane, block])
// Inside a block even and odd k are summed apart, in rising order, and added;
// blocks are added in rising order in chains of kChunkBlocks, and chains in
// rising order. The order depends on nothing else, so a row's bits depend
// neither on mr nor on the row's place.

#ifndef QGEMM_KERNELS_CPU_MICROKERNEL_H_
#define QGEMM_KERNELS_CPU_MICROKERNEL_H_

#include <stdint.h>

namespace qgemm {

constexpr int kTileRows = 16;
constexpr int kBlockElements = 32;
// Blocks whose sums are added in one fp32 chain: 256 elements of K.
constexpr int kChunkBlocks = 8;
// Activation rows that the widest microkernel takes.
constexpr int kMaxMr = 8;
// How far ahead of its reads a microkernel prefetches weights, in bytes.
constexpr int kPrefetchBytes = 2048;

// How a group's scale is stored. An E4M4 scale is read as the half with its
// bits in place, which is a sixteenth of it; the caller multiplies.
enum TileScale {
  kTileScaleE4m4,
  kTileScaleFloat16,
  kTileScaleBFloat16,
  kTileScaleFloat32,
};

struct TileArgs {
  // Weights of the tile. Codes: `bits` vectors of 16 little-endian words a
  // block, one word a row (code_packing.h). Dense: [k][16] 16-bit elements.
  const uint8_t* codes;
  const uint8_t* scales;  // [groups][16] of scale_type
  const uint8_t* zeros;   // [groups][16] bytes, or null
  const float* table;     // 32 entries, the codebook repeated
  float zero_unit;        // what a zero of 1 stands for in the table's unit
  int scale_type;         // TileScale
  int group_shift;        // block >> group_shift is the block's group
  int64_t blocks;

  // fp32 activations, [mr] rows of 32 * blocks.
  const float* a;
  int64_t a_stride;  // elements

  // Q8_1 activations, [mr] rows. Each group of 8 elements is stored as
  // elements 0 2 4 6 1 3 5 7, beside the even and odd nibbles of a word.
  const int8_t* q8;
  const float* d8;        // a scale a block
  const int32_t* q8_sum;  // the sum of a block's 32 integers
  int64_t q8_stride;      // elements
  int64_t d8_stride;      // elements, of d8 and q8_sum

  float* sums;  // [mr][16]
};

enum TileFamily {
  kFamilyWqA32,     // codes x fp32 activations
  kFamilyW4A8,      // 4-bit codes minus 8 x Q8_1 activations
  kFamilyFloat16,   // fp16 weights x fp32 activations
  kFamilyBFloat16,  // bf16 weights x fp32 activations
};

struct Microkernel {
  const char* name;  // <family>_<mr>x<nr>_<isa>
  int family;        // TileFamily
  int bits;          // of a code; 0 for dense weights
  int zeros;         // 1 if it subtracts zeros
  int mr;
  void (*run)(const TileArgs* args);
};

struct MicrokernelRows {
  const Microkernel* rows;
  int count;
};

// Conversions between fp32 and halves, round to nearest even.
struct HalfConversions {
  void (*from_half)(const uint16_t* halves, int64_t count, float* floats);
  void (*to_half)(const float* floats, int64_t count, uint16_t* halves);
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_MICROKERNEL_H_
