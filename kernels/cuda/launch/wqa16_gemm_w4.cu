// SPDX-License-Identifier: Apache-2.0
//
// The small-M kernels for codes of 4 bits.

#include "kernels/cuda/launch/wqa16_gemm_table.cuh"

namespace qgemm::cuda {

const Wqa16KernelTable& Wqa16KernelsW4() {
  static const Wqa16KernelTable table = MakeTable<4>();
  return table;
}

}  // namespace qgemm::cuda
