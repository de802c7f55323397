// SPDX-License-Identifier: Apache-2.0
//
// The small-M kernels for codes of 3 bits.

#include "kernels/cuda/launch/wqa16_gemm_table.cuh"

namespace qgemm::cuda {

const Wqa16KernelTable& Wqa16KernelsW3() {
  static const Wqa16KernelTable table = MakeTable<3>();
  return table;
}

}  // namespace qgemm::cuda
