// SPDX-License-Identifier: Apache-2.0
//
// Which signatures the CPU backend computes for which layers, and the
// microkernels that do it. Pure.

#ifndef QGEMM_KERNELS_CPU_SUPPORT_H_
#define QGEMM_KERNELS_CPU_SUPPORT_H_

#include "absl/status/status.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/cpu/microkernel_table.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// OK; UNIMPLEMENTED with the modes that such a layer offers; or
// INVALID_ARGUMENT.
absl::Status CheckSignature(const CpuWeightsTraits& traits,
                            const MatmulSignature& signature);

// What a supported signature is computed with: `preferred` for requests of
// least_rows or more of their own, where the instruction set has it, else
// `base`, which every set has. So a request's family does not depend on what it
// is merged with.
struct FamilyKeys {
  MicrokernelKey base;
  MicrokernelKey preferred;
  int64_t least_rows = 1;
};
FamilyKeys KeysOf(const CpuWeightsTraits& traits,
                  const MatmulSignature& signature);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_SUPPORT_H_
