// SPDX-License-Identifier: Apache-2.0
//
// The table of processors that have portable microkernels only.

#include "kernels/cpu/microkernel_table.h"
#include "kernels/cpu/microkernels/microkernels.h"

namespace qgemm {

MicrokernelTable TableOf(CpuIsa) {
  MicrokernelTable table;
  table.half_conversions = ScalarHalfConversions();
  for (const MicrokernelRows& file :
       {WqA32ScalarRows(), W4A8ScalarRows(), W16A32ScalarRows()}) {
    table.rows.insert(table.rows.end(), file.rows, file.rows + file.count);
  }
  return table;
}

}  // namespace qgemm
