// SPDX-License-Identifier: Apache-2.0
//
// A counting sort.

#include "kernels/formats/group_index.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace qgemm {

absl::StatusOr<std::vector<int32_t>> SortByGroup(
    absl::Span<const int32_t> group_index, int64_t group_size) {
  const int64_t groups = group_index.size() / group_size;
  std::vector<int64_t> members(groups, 0);
  std::vector<int32_t> order(group_index.size());
  for (size_t feature = 0; feature < group_index.size(); ++feature) {
    const int32_t group = group_index[feature];
    if (group < 0 || group >= groups) {
      return absl::InvalidArgumentError(
          absl::StrCat("group_index[", feature, "] = ", group,
                       ": must be 0 to ", groups - 1));
    }
    if (members[group] == group_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("group_index[", feature, "] = ", group,
                       ": that group has more than ", group_size, " members"));
    }
    order[group * group_size + members[group]++] = feature;
  }
  return order;
}

}  // namespace qgemm
