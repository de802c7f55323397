// SPDX-License-Identifier: Apache-2.0
//
// The microkernels of an instruction set, and the choice among them.

#ifndef QGEMM_KERNELS_CPU_MICROKERNEL_TABLE_H_
#define QGEMM_KERNELS_CPU_MICROKERNEL_TABLE_H_

#include <array>
#include <utility>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {

// All microkernels of an instruction set. A family without microkernels of its
// own comes from a set that this one includes.
struct MicrokernelTable {
  std::vector<Microkernel> rows;
  HalfConversions half_conversions;
  SplitRowFunction split_row = nullptr;  // where a row reads parts
};

// The table of a set that the processor supports.
MicrokernelTable TableOf(CpuIsa isa);

// A family and, for those with codes, the width of a code and whether zeros are
// subtracted.
struct MicrokernelKey {
  int family;
  int bits = 0;
  bool zeros = false;

  friend bool operator==(const MicrokernelKey& one,
                         const MicrokernelKey& other) {
    return one.family == other.family && one.bits == other.bits &&
           one.zeros == other.zeros;
  }
  template <typename H>
  friend H AbslHashValue(H hash, const MicrokernelKey& key) {
    return H::combine(std::move(hash), key.family, key.bits, key.zeros);
  }
};

// The microkernels of one key; all give a row the same bits.
struct MicrokernelChoice {
  // Entry rows - 1: the widest of the microkernels that take at most so many
  // rows.
  std::array<const Microkernel*, kMaxMr> by_rows{};

  bool empty() const { return by_rows[0] == nullptr; }
};

// Pure. The table must outlive the choice; empty if it has no such rows.
MicrokernelChoice Choose(const MicrokernelTable& table,
                         const MicrokernelKey& key);

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_MICROKERNEL_TABLE_H_
