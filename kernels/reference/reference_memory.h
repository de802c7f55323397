// SPDX-License-Identifier: Apache-2.0
//
// Resident layers and staging of the reference backend: canonical weights,
// untouched, and plain host memory, both counted.

#ifndef QGEMM_KERNELS_REFERENCE_REFERENCE_MEMORY_H_
#define QGEMM_KERNELS_REFERENCE_REFERENCE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/canonical_weights.h"

namespace qgemm::reference {

// Immutable and thread-safe.
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

}  // namespace qgemm::reference

#endif  // QGEMM_KERNELS_REFERENCE_REFERENCE_MEMORY_H_
