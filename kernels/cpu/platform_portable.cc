// SPDX-License-Identifier: Apache-2.0
//
// Processors that have portable microkernels only: detection and table.

#include "kernels/cpu/isa.h"
#include "kernels/cpu/microkernel_table.h"
#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {

std::vector<CpuIsa> SupportedCpuIsas() { return {CpuIsa::kScalar}; }

MicrokernelTable TableOf(CpuIsa) {
  MicrokernelTable table;
  table.half_conversions = ScalarHalfConversions();
  for (const MicrokernelRows& file :
       {QuantA32ScalarRows(), W4A8ScalarRows(), W16A32ScalarRows()}) {
    table.rows.insert(table.rows.end(), file.rows, file.rows + file.count);
  }
  return table;
}

}  // namespace qgemm::cpu
