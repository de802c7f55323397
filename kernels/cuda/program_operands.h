// SPDX-License-Identifier: Apache-2.0
//
// Values and ops of a program as kernels take them.

#ifndef QGEMM_KERNELS_CUDA_PROGRAM_OPERANDS_H_
#define QGEMM_KERNELS_CUDA_PROGRAM_OPERANDS_H_

#include <cstdint>

#include "kernels/cuda/cuda_program.h"
#include "kernels/cuda/launch/decode_group.h"
#include "kernels/cuda/launch/row_ops.h"
#include "kernels/cuda/plan/program_fusion.h"
#include "kernels/programs/value_layout.h"

namespace qgemm::cuda {

class ProgramOperands {
 public:
  // `values` is device memory for values placed as `places` says; all must
  // outlive it.
  ProgramOperands(const CudaProgram& program, const ValueMemory& places,
                  uint8_t* values)
      : program_(program), places_(places), values_(values) {}

  uint8_t* AddressOf(ValueNumber number) const;
  DeviceMatrix MatrixOf(ValueNumber number) const;
  DeviceRowOp RowOpOf(int64_t op) const;
  DecodeGroupGemm GroupedGemmOf(const GroupedGemmPart& part,
                                int64_t rows) const;

 private:
  const CudaProgram& program_;
  const ValueMemory& places_;
  uint8_t* const values_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PROGRAM_OPERANDS_H_
