// SPDX-License-Identifier: Apache-2.0
//
// A check over scales of any type.

#include "kernels/formats/scale_rows.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace qgemm {

absl::Status CheckScales(const GroupPanel& panel, ScaleType type) {
  const int64_t size = SizeOf(type);
  for (int64_t i = 0; i < panel.rows * panel.groups; ++i) {
    const float scale = LoadScale(type, panel.bytes.data() + i * size);
    if (!std::isfinite(scale)) {
      return absl::InvalidArgumentError(
          absl::StrCat("scales: row ", panel.row_begin + i / panel.groups,
                       ", group ", panel.group_begin + i % panel.groups, " = ",
                       scale, ": must be finite"));
    }
  }
  return absl::OkStatus();
}

}  // namespace qgemm
