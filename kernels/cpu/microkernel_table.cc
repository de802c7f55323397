// SPDX-License-Identifier: Apache-2.0
//
// The choice; the tables are in platform_x86.cc and platform_portable.cc.

#include "kernels/cpu/microkernel_table.h"

namespace qgemm::cpu {
namespace {

bool Matches(const Microkernel& row, const MicrokernelKey& key) {
  return row.family == key.family && row.bits == key.bits &&
         row.zeros == (key.zeros ? 1 : 0);
}

}  // namespace

MicrokernelChoice Choose(const MicrokernelTable& table,
                         const MicrokernelKey& key) {
  MicrokernelChoice choice;
  for (const Microkernel& row : table.rows) {
    if (!Matches(row, key)) continue;
    const int least_rows = row.least_rows == 0 ? row.mr : row.least_rows;
    for (int rows = least_rows; rows <= kMaxMr; ++rows) {
      const Microkernel*& best = choice.by_rows[rows - 1];
      if (best == nullptr || best->mr < row.mr) best = &row;
    }
  }
  return choice;
}

}  // namespace qgemm::cpu
