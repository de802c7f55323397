// SPDX-License-Identifier: Apache-2.0
//
// The wide kernels for codes of 2 bits.

#include "kernels/cuda/launch/wqa16_wide_table.cuh"

namespace qgemm::cuda {

const Wqa16WideTable& Wqa16WideKernelsW2() {
  static const Wqa16WideTable table = MakeWideTable<2>();
  return table;
}

}  // namespace qgemm::cuda
