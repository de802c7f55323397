// SPDX-License-Identifier: Apache-2.0
//
// The resident layout of codes: blocks of 16 rows by 32 columns, `bits`
// vectors of 16 little-endian 32-bit words each, a word a row. Packing and
// unpacking of one row of a block; cpu_weights.h says where blocks go.
//
// A word is two halves of 16 bits; half h of word w holds 16/bits codes from
// its low bits up, those from (2 * w + h) * (16/bits) on. 3 and 5 bits leave
// the top bit of each half: in word w it is bit w of code 30 (low halves) and
// of code 31 (high halves). So a block takes exactly bits * 64 bytes, and one
// shift of its words brings two codes of a row to the low ends of the halves:
// a pair.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_CODE_PACKING_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_CODE_PACKING_H_

#include <cstdint>

namespace qgemm::cpu {

// Bytes of a block of codes.
constexpr int64_t BlockBytes(int bits) { return int64_t{64} * bits; }

// Position of code k (0..31) of a row: its pair (0..15, in the order of words
// and shifts, the spare pair last), and its half of the pair.
struct PairPlace {
  int pair;
  int half;
};
PairPlace PlaceInPairs(int bits, int k);

// Writes the 32 codes of row `lane` (0..15) of a block.
void PackBlockRow(int bits, const uint8_t* codes, int lane, uint8_t* block);

// Writes the one code of column k (0..31) of row `lane`, which must hold zero
// bits so far.
void PackCode(int bits, uint8_t code, int k, int lane, uint8_t* block);

// Reads the 32 codes of row `lane`.
void UnpackBlockRow(int bits, const uint8_t* block, int lane, uint8_t* codes);

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_CODE_PACKING_H_
