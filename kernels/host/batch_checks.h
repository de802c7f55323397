// SPDX-License-Identifier: Apache-2.0
//
// Checks that every backend makes of options, layers and batches before it
// takes them, with one wording.

#ifndef QGEMM_KERNELS_HOST_BATCH_CHECKS_H_
#define QGEMM_KERNELS_HOST_BATCH_CHECKS_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// An option's name and value.
using NamedOption = std::pair<absl::string_view, int64_t>;

// INVALID_ARGUMENT names the first option that is below `least`; `backend` is
// the first word of the message.
absl::Status CheckOptions(absl::string_view backend,
                          absl::Span<const NamedOption> options,
                          int64_t least = 0);

// INVALID_ARGUMENT if n or k is below 1 or beyond the limits.
absl::Status CheckLayerLimits(const WeightsShape& shape,
                              const BackendLimits& limits);

// INVALID_ARGUMENT if mode A16 is to round fp32 activations to fp32.
absl::Status CheckRounding(const MatmulSignature& signature);

// INVALID_ARGUMENT if the batch has no weights, no rows, a segment without
// rows or operands, or more than `max_rows` rows in all.
absl::Status CheckBatch(const GemmBatch& batch, int64_t max_rows);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_HOST_BATCH_CHECKS_H_
