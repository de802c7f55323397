// SPDX-License-Identifier: Apache-2.0
//
// The command line of qgemm_loadtest. What the flags mean is in options.h.

#ifndef QGEMM_LOADTEST_LOADTEST_FLAGS_H_
#define QGEMM_LOADTEST_LOADTEST_FLAGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "loadtest/options.h"

namespace qgemm {

// Reads `--name=value`, `--name value`, `--name` and `--noname`. Exits after
// --help. Errors: INVALID_ARGUMENT that names the argument.
absl::StatusOr<LoadtestFlags> ReadLoadtestFlags(int argc, char** argv);

// Every flag with its value, in alphabetical order.
std::vector<std::pair<std::string, std::string>> FlagValues();

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_LOADTEST_FLAGS_H_
