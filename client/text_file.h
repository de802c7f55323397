// SPDX-License-Identifier: Apache-2.0
//
// Small files that options name: tokens, certificates and keys.

#ifndef QGEMM_CLIENT_TEXT_FILE_H_
#define QGEMM_CLIENT_TEXT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm {

// All of a file of at most 1 MiB. Errors begin with `option`, which named it:
// NOT_FOUND (it cannot be read), INVALID_ARGUMENT (it is larger).
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         absl::string_view option);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_TEXT_FILE_H_
