// SPDX-License-Identifier: Apache-2.0
//
// The tables of x86-64: one row of files an instruction set.

#include <initializer_list>

#include "kernels/cpu/microkernel_table.h"
#include "kernels/cpu/microkernels/microkernels.h"

namespace qgemm {
namespace {

MicrokernelTable Join(std::initializer_list<MicrokernelRows> files,
                      HalfConversions half_conversions) {
  MicrokernelTable table;
  table.half_conversions = half_conversions;
  for (const MicrokernelRows& file : files) {
    table.rows.insert(table.rows.end(), file.rows, file.rows + file.count);
  }
  return table;
}

}  // namespace

MicrokernelTable TableOf(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      break;
    case CpuIsa::kAvx2:
      return Join({WqA32Avx2Rows(), W4A8Avx2Rows(), W16A32Avx2Rows()},
                  F16cHalfConversions());
    case CpuIsa::kAvx512:
      return Join({WqA32Avx512Rows(), W4A8Avx2Rows(), W16A32Avx512Rows()},
                  F16cHalfConversions());
    case CpuIsa::kAvx512Vnni:
      return Join({WqA32Avx512Rows(), W4A8Avx512VnniRows(), W16A32Avx512Rows()},
                  F16cHalfConversions());
    case CpuIsa::kAmx: {
      MicrokernelTable table =
          Join({WqA32Avx512Rows(), W4A8Avx512VnniRows(), W16A32Avx512Rows(),
                WqABFloat16Avx512Rows(), WqA16AmxRows()},
               F16cHalfConversions());
      table.split_row = AmxSplitRow();
      return table;
    }
  }
  return Join({WqA32ScalarRows(), W4A8ScalarRows(), W16A32ScalarRows()},
              ScalarHalfConversions());
}

}  // namespace qgemm
