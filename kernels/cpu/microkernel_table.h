// SPDX-License-Identifier: Apache-2.0
//
// Which microkernels an instruction set has, and the choice among them.

#ifndef QGEMM_KERNELS_CPU_MICROKERNEL_TABLE_H_
#define QGEMM_KERNELS_CPU_MICROKERNEL_TABLE_H_

#include <array>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/microkernel.h"

namespace qgemm {

// All of an instruction set's microkernels. A family that the set has none of
// its own for comes from a set that it includes.
struct MicrokernelTable {
  std::vector<Microkernel> rows;
  HalfConversions half_conversions;
  SplitRowFunction split_row = nullptr;  // where a row reads parts
};

// The table of a set that the processor supports.
MicrokernelTable TableOf(CpuIsa isa);

// What is looked up: a family, and of those with codes the code's width and
// whether there are zeros.
struct MicrokernelKey {
  int family;
  int bits = 0;
  bool zeros = false;
};

// The microkernels of one key; all give a row the same bits.
struct MicrokernelChoice {
  // Entry rows - 1: of the microkernels that take so many rows or less, the
  // one that takes the most at once.
  std::array<const Microkernel*, kMaxMr> by_rows{};

  bool empty() const { return by_rows[0] == nullptr; }
};

// Pure. The table must outlive the choice; empty if it has no such rows.
MicrokernelChoice Choose(const MicrokernelTable& table,
                         const MicrokernelKey& key);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_MICROKERNEL_TABLE_H_
