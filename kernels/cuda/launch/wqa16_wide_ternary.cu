// SPDX-License-Identifier: Apache-2.0
//
// The wide kernels for ternary codes.

#include "kernels/cuda/launch/wqa16_wide_table.cuh"

namespace qgemm::cuda {

const Wqa16WideTable& Wqa16WideKernelsTernary() {
  static const Wqa16WideTable table = MakeWideTable<kTernaryCodes>();
  return table;
}

}  // namespace qgemm::cuda
