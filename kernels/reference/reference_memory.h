// SPDX-License-Identifier: Apache-2.0
//
// Builders and staging of the reference backend: canonical weights and plain
// host memory, both counted.

#ifndef QGEMM_KERNELS_REFERENCE_REFERENCE_MEMORY_H_
#define QGEMM_KERNELS_REFERENCE_REFERENCE_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/matrix/backend.h"
#include "kernels/reference/memory_ledger.h"

namespace qgemm {

// Bytes of a layer in canonical form.
int64_t CanonicalBytes(const WeightsShape& shape);

// A builder of ReferenceWeights within `limits`, counted in `ledger`, which
// must outlive it and them.
std::unique_ptr<WeightsBuilder> NewReferenceBuilder(const BackendLimits& limits,
                                                    MemoryLedger* ledger);

// Host memory of undefined contents, counted in `ledger`, which must outlive
// it.
absl::StatusOr<StagingLease> AcquireHostStaging(int64_t size_bytes,
                                                MemoryLedger* ledger);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_REFERENCE_REFERENCE_MEMORY_H_
