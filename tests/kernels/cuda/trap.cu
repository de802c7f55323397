// SPDX-License-Identifier: Apache-2.0
//
// One instruction.

#include "tests/kernels/cuda/trap.h"

namespace qgemm::cuda {
namespace {

__global__ void TrapKernel() { __trap(); }

}  // namespace

cudaError_t Trap() {
  TrapKernel<<<1, 1>>>();
  return cudaGetLastError();
}

}  // namespace qgemm::cuda
