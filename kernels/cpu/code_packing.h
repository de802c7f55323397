// SPDX-License-Identifier: Apache-2.0
//
// The resident layout of codes: blocks of 16 rows by 32 columns, `bits`
// vectors of 16 little-endian 32-bit words each, a word a row. Packing and
// unpacking of one row of a block; where blocks go is in packed_layout.h.
//
// 2 and 4 bits: word w holds codes w * 32/bits ... from its low bits up.
// 3 and 5 bits: word w holds 32/bits codes in its low 30 bits, and bits 2w and
// 2w + 1 of the last two codes, put together, in its top two bits. So a block
// takes exactly bits * 64 bytes.

#ifndef QGEMM_KERNELS_CPU_CODE_PACKING_H_
#define QGEMM_KERNELS_CPU_CODE_PACKING_H_

#include <cstdint>

namespace qgemm {

// Bytes of a block of codes.
constexpr int64_t BlockBytes(int bits) { return int64_t{64} * bits; }

// Writes the 32 codes of row `lane` (0..15) of a block.
void PackBlockRow(int bits, const uint8_t* codes, int lane, uint8_t* block);

// Writes the one code of column k (0..31) of row `lane`, which must hold zero
// bits so far.
void PackCode(int bits, uint8_t code, int k, int lane, uint8_t* block);

// Reads the 32 codes of row `lane`.
void UnpackBlockRow(int bits, const uint8_t* block, int lane, uint8_t* codes);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_CODE_PACKING_H_
