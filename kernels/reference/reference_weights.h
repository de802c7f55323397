// SPDX-License-Identifier: Apache-2.0
//
// A resident layer of the reference backend: the canonical form, untouched.

#ifndef QGEMM_KERNELS_REFERENCE_REFERENCE_WEIGHTS_H_
#define QGEMM_KERNELS_REFERENCE_REFERENCE_WEIGHTS_H_

#include <cstdint>
#include <utility>

#include "kernels/matrix/backend.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/reference/memory_ledger.h"

namespace qgemm {

class ReferenceWeights final : public ResidentWeights {
 public:
  ReferenceWeights(CanonicalWeights canonical, MemoryReservation memory)
      : ResidentWeights(canonical.header().n, canonical.header().k),
        memory_(std::move(memory)),
        canonical_(std::move(canonical)) {}

  int64_t resident_bytes() const override { return memory_.bytes(); }
  const CanonicalWeights& canonical() const { return canonical_; }

 private:
  // Given back last, once the canonical form is gone.
  const MemoryReservation memory_;
  const CanonicalWeights canonical_;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_REFERENCE_REFERENCE_WEIGHTS_H_
