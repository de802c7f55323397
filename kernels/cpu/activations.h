// SPDX-License-Identifier: Apache-2.0
//
// The activations of programs (docs/programs.md#operations) over arrays. Pure
// functions of each element.

#ifndef QGEMM_KERNELS_CPU_ACTIVATIONS_H_
#define QGEMM_KERNELS_CPU_ACTIVATIONS_H_

#include "absl/types/span.h"
#include "kernels/programs/program.h"

namespace qgemm::cpu {

// Replaces each element by its activation, within 1 ulp of fp32 or 2^-120. RELU
// is exact. Infinities and NaN come out as the formulas have them.
void Activate(Activation activation, absl::Span<float> elements);

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_ACTIVATIONS_H_
