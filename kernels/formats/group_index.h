// SPDX-License-Identifier: Apache-2.0
//
// GPTQ's act-order: from the group of each input feature to the order in
// which groups are contiguous.

#ifndef QGEMM_KERNELS_FORMATS_GROUP_INDEX_H_
#define QGEMM_KERNELS_FORMATS_GROUP_INDEX_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace qgemm {

// The input features sorted by group, those of one group in their own order:
// result[j] is the feature at position j. Errors: INVALID_ARGUMENT, if an
// entry is not a group or a group has not exactly `group_size` members.
absl::StatusOr<std::vector<int32_t>> SortByGroup(
    absl::Span<const int32_t> group_index, int64_t group_size);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_GROUP_INDEX_H_
