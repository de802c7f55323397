// SPDX-License-Identifier: Apache-2.0
//
// The reference backend's parts without queue and thread: resident layers and
// staging, both counted, the signatures that it takes, and the product of a
// batch.

#ifndef QGEMM_KERNELS_REFERENCE_REFERENCE_MATMUL_H_
#define QGEMM_KERNELS_REFERENCE_REFERENCE_MATMUL_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm::reference {

// Canonical weights, untouched. Immutable and thread-safe.
class ReferenceWeights final : public ResidentWeights {
 public:
  ReferenceWeights(CanonicalWeights canonical, ByteReservation memory)
      : ResidentWeights(canonical.header().n, canonical.header().k),
        memory_(std::move(memory)),
        canonical_(std::move(canonical)) {}

  int64_t resident_bytes() const override { return memory_.bytes(); }
  const CanonicalWeights& canonical() const { return canonical_; }

 private:
  // Given back last, once the canonical form is gone.
  const ByteReservation memory_;
  const CanonicalWeights canonical_;
};

// Bytes of a layer in canonical form.
int64_t CanonicalBytes(const WeightsShape& shape);

// A builder of ReferenceWeights within `limits`, counted in `budget`, which
// must outlive it.
std::unique_ptr<WeightsBuilder> NewReferenceBuilder(const BackendLimits& limits,
                                                    ByteBudget* budget);

// Host memory of undefined contents, counted in `budget`.
absl::StatusOr<StagingLease> AcquireHostStaging(int64_t size_bytes,
                                                ByteBudget* budget);

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
