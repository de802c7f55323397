// SPDX-License-Identifier: Apache-2.0
//
// The small-M kernels for ternary codes.

#include "kernels/cuda/launch/wqa16_gemm_table.cuh"

namespace qgemm::cuda {

const Wqa16KernelTable& Wqa16KernelsTernary() {
  static const Wqa16KernelTable table = MakeTable<kTernaryCodes>();
  return table;
}

}  // namespace qgemm::cuda
