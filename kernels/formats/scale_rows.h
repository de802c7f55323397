// SPDX-License-Identifier: Apache-2.0
//
// Scales that are stored as the canonical form has them: checked and handed
// on.

#ifndef QGEMM_KERNELS_FORMATS_SCALE_ROWS_H_
#define QGEMM_KERNELS_FORMATS_SCALE_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// OK if every scale of the panel is finite, else INVALID_ARGUMENT with the
// row and group of the first that is not.
absl::Status CheckScales(const GroupPanel& panel, ScaleType type);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_SCALE_ROWS_H_
