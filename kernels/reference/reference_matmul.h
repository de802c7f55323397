// SPDX-License-Identifier: Apache-2.0
//
// The reference backend's computation as functions: the signatures that it
// takes, and the product of a batch. No threads.

#ifndef QGEMM_KERNELS_REFERENCE_REFERENCE_MATMUL_H_
#define QGEMM_KERNELS_REFERENCE_REFERENCE_MATMUL_H_

#include "absl/status/status.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm::reference {

// OK for every mode that is defined for the layer: A16 always, A8 where Q8_1
// activations are, A32 where codes are exact integers. Otherwise UNIMPLEMENTED,
// or INVALID_ARGUMENT for a rounding to fp32.
absl::Status CheckReferenceSupport(const WeightsShape& shape,
                                   const MatmulSignature& signature);

// Computes every segment in fp64 and rounds once. The batch's weights are
// ReferenceWeights.
void ReferenceMatmul(const GemmBatch& batch);

}  // namespace qgemm::reference

#endif  // QGEMM_KERNELS_REFERENCE_REFERENCE_MATMUL_H_
