// SPDX-License-Identifier: Apache-2.0
//
// Arguments and declarations of the microkernels. Plain data only: this is the
// one header of ours that files compiled for different instruction sets share.
//
// A microkernel multiplies mr activation rows with one tile of 16 weight rows
// over all of K, block of 32 by block of 32:
//   sums[r][lane] = sum_block scale[lane, block] *
//                   sum_k a[r][k] * (table[code[lane, k]] - zero[lane, block])
// Inside a block two halves are summed apart, in rising order, and added: codes
// of the low and of the high halves of words (code_packing.h), even and odd k
// of dense weights. On AVX2 codes of 4 and 5 bits have four sums a block, as a
// half's pairs 0, 1, 4, 5, 8 and so on are summed apart from the others; where
// 4 bits stand for whole numbers that rise by one, pairs 4 * i + j of both
// halves in turn are summed apart for each j, then added two by two. Blocks are
// added in rising order in chains of kChunkBlocks, and chains in rising
// order. The order depends on nothing else, so a row's bits depend neither on
// mr nor on the row's place.
//
// AVX512_BF16 sums even and odd pairs of bf16 apart, in place of halves, the
// two elements of a pair in the order of its instruction.
//
// The order of halves also is what one instruction of AMX does with a block of
// bf16 pairs, to the last bit: two chains of fused multiply-adds, without
// subnormals. So where weights and activations both are bf16
// (kFamilyQuantABFloat16), tiles and vectors give the same bits. fp16
// activations (kFamilyQuantAFloat16) are two bf16 parts that add up to them,
// the table is two parts that nearly do, and a block's products of high and
// high, high and low, low and high parts are summed in this order.
//
// In the scaled families a weight and its scale are multiplied first, and
// rounded to bf16, or to two bf16 parts for fp16 activations; the products of
// their parts are added in the order of AMX, block by block, in chains of 4096
// elements.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_MICROKERNEL_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_MICROKERNEL_H_

#include <stdint.h>

namespace qgemm::cpu {

constexpr int kTileRows = 16;
constexpr int kBlockElements = 32;
// Blocks whose sums are added in one fp32 chain: 256 elements of K.
constexpr int kChunkBlocks = 8;
// Activation rows that the widest microkernel takes.
constexpr int kMaxMr = 512;
// Tiles that the widest microkernel takes at once.
constexpr int kMaxTiles = 8;
// Distance from a microkernel's reads to its prefetches of weights, in bytes.
constexpr int kPrefetchBytes = 6144;

// Storage of a group's scale. An E4M4 scale is read as the half with its
// bits in place, which is a sixteenth of it; the caller multiplies.
enum TileScale {
  kTileScaleE4m4,
  kTileScaleFloat16,
  kTileScaleBFloat16,
  kTileScaleFloat32,
};

struct TileArgs {
  // Weights of the tile. Codes: `bits` vectors of 16 little-endian words a
  // block, one word a row (code_packing.h); three bytes behind the last block
  // are readable too. Dense: [k][16] 16-bit elements.
  const uint8_t* codes;
  const uint8_t* scales;  // [groups][16] of scale_type
  const uint8_t* zeros;   // [groups][16] bytes, or null
  // 32 entries, the codebook repeated, of 16 significant bits at most: the
  // lowest byte of each is zero.
  const float* table;
  // bf16, 32 entries, of what a pair's index picks by its low 5 bits: the
  // codebook repeated or, of layers with zeros, the differences -16 to 15 in
  // two's complement. `table_low` is the rest of each, or null for no rest.
  const uint16_t* table_high;
  const uint16_t* table_low;
  float zero_unit;  // what a zero of 1 stands for in the table's unit
  int scale_type;   // TileScale
  int group_shift;  // block >> group_shift is the block's group
  int64_t blocks;
  int64_t block_bytes;  // of codes or dense elements
  // Neighbouring tiles, 1 to as many as the microkernel takes; bytes from one
  // to the next.
  int tiles;
  int64_t next_codes;
  int64_t next_scales;
  int64_t next_zeros;

  // fp32 activations, [mr] rows of 32 * blocks.
  const float* a;
  int64_t a_stride;  // elements

  // Packed fp32 activations, groups of as many rows as the microkernel says,
  // the last one padded: [rows / group][blocks][32][group], a block's elements
  // in the order of its two halves.
  const float* packed;

  // bf16 parts of activations, groups of part_rows rows: of each group and
  // block [part_rows][32] high parts in the order of pairs, then low parts
  // likewise, if the family has any. In mode A8 the parts are the integers of
  // `q8`, [part_rows][32] bytes, behind them is the block's scale of each row,
  // in fp32.
  const uint16_t* parts;
  int rows;            // to be multiplied, of parts or packed ones
  int64_t part_rows;   // the microkernel's group, or `rows` up to half of it
  int64_t part_block;  // elements of a block of a group

  // Q8_1 activations, [mr] rows. Each group of 8 elements is stored as
  // elements 0 2 4 6 1 3 5 7, beside the even and odd nibbles of a word.
  const int8_t* q8;
  const float* d8;        // a scale a block
  const int32_t* q8_sum;  // the sum of a block's 32 integers
  int64_t q8_stride;      // elements
  int64_t d8_stride;      // elements, of d8 and q8_sum

  float* sums;  // [tiles][mr][16], of `rows` rows where there is no fixed mr
};

enum TileFamily {
  kFamilyQuantA32,         // codes x fp32 activations
  kFamilyW4A8,             // 4-bit codes minus 8 x Q8_1 activations
  kFamilyFloat16,          // fp16 weights x fp32 activations
  kFamilyBFloat16,         // bf16 weights x fp32 activations
  kFamilyQuantABFloat16,   // codes of a bf16 table x bf16 activations
  kFamilyQuantAFloat16,    // codes x fp16 activations, both in bf16 parts
  kFamilyScaledABFloat16,  // scaled weights x bf16 activations
  kFamilyScaledAFloat16,   // scaled weights x fp16 activations, both in parts
};

// Activation rows as a microkernel reads them.
enum RowForm {
  kFormFloats,  // `a`, or `q8` of mode A8
  kFormPacked,  // `packed`
  kFormParts,   // `parts`
};

struct Microkernel {
  const char* name;  // <family>_<mr>x<nr>_<isa>
  int family;        // TileFamily
  int bits;          // of a code; 0 for dense weights
  int zeros;         // 1 if it subtracts zeros
  int mr;
  void (*run)(const TileArgs* args);
  // It takes least_rows to mr rows, packed or in parts; 0: exactly mr.
  int least_rows = 0;
  int form = kFormFloats;  // RowForm
  int group = 1;  // rows of a group of packed ones or of those in parts
  int tiles = 1;  // the most that it takes at once
};

// One row of activations to be written as bf16 parts.
struct RowParts {
  const float* row;  // [32 * blocks], each the sum of two bf16
  int64_t blocks;
  const uint16_t* pick;  // [32]: element i is number pick[i] / 2 of its block
  int64_t part_block;    // elements from one block's parts to the next's
  uint16_t* high;        // of the first block
  uint16_t* low;         // likewise, or null if there is no rest
};
using SplitRowFunction = void (*)(const RowParts* parts);

struct MicrokernelRows {
  const Microkernel* rows;
  int count;
};

// Conversions between fp32 and halves, round to nearest even.
struct HalfConversions {
  void (*from_half)(const uint16_t* halves, int64_t count, float* floats);
  void (*to_half)(const float* floats, int64_t count, uint16_t* halves);
};

// The rows that each file of this folder contributes to the table.
MicrokernelRows QuantA32ScalarRows();
MicrokernelRows W4A8ScalarRows();
MicrokernelRows W16A32ScalarRows();

MicrokernelRows W2W3A32Avx2Rows();
MicrokernelRows W4W5A32Avx2Rows();
MicrokernelRows W4A8Avx2Rows();
MicrokernelRows W16A32Avx2Rows();
MicrokernelRows PanelA32Avx2Rows();

MicrokernelRows QuantA32Avx512Rows();
MicrokernelRows W16A32Avx512Rows();
MicrokernelRows PanelA32Avx512Rows();

MicrokernelRows W4A8Avx512VnniRows();

MicrokernelRows QuantABFloat16Avx512Bf16Rows();

MicrokernelRows QuantABFloat16Avx512Rows();
MicrokernelRows QuantA16AmxRows();
MicrokernelRows ScaledA16AmxRows();
MicrokernelRows PanelW4A8AmxRows();
SplitRowFunction Avx512SplitRow();

HalfConversions ScalarHalfConversions();
HalfConversions F16cHalfConversions();

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_MICROKERNEL_H_
