// SPDX-License-Identifier: Apache-2.0
//
// What the reference backend computes, as functions: which signatures, and
// the product of a batch. No threads.

#ifndef QGEMM_KERNELS_REFERENCE_REFERENCE_MATMUL_H_
#define QGEMM_KERNELS_REFERENCE_REFERENCE_MATMUL_H_

#include "absl/status/status.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// Every mode that is defined for the layer: A16 always, A8 where Q8_1
// activations are, A32 where codes are exact integers. Else UNIMPLEMENTED, or
// INVALID_ARGUMENT for a rounding that is none.
absl::Status CheckReferenceSupport(const WeightsHeader& header,
                                   const MatmulSignature& signature);

// OK if a batch of `weights` may be enqueued on a backend of these limits:
// rows in all, rows and operands of each segment.
absl::Status CheckBatchShape(const GemmBatch& batch,
                             const BackendLimits& limits);

// Computes every segment in fp64 and rounds once. The batch's weights are
// ReferenceWeights.
void ReferenceMatmul(const GemmBatch& batch);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_REFERENCE_REFERENCE_MATMUL_H_
