// SPDX-License-Identifier: Apache-2.0
//
// Compares what others must not find out by measuring time.

#ifndef QGEMM_BASE_SECRET_COMPARE_H_
#define QGEMM_BASE_SECRET_COMPARE_H_

#include "absl/strings/string_view.h"

namespace qgemm {

// True if the texts are equal. The time depends on their lengths alone.
bool SecretsEqual(absl::string_view a, absl::string_view b);

}  // namespace qgemm

#endif  // QGEMM_BASE_SECRET_COMPARE_H_
