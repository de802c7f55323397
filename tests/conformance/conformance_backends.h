// SPDX-License-Identifier: Apache-2.0
//
// Backends that the conformance suite runs on. A backend joins by one row.

#ifndef QGEMM_TESTS_CONFORMANCE_CONFORMANCE_BACKENDS_H_
#define QGEMM_TESTS_CONFORMANCE_CONFORMANCE_BACKENDS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

struct ConformanceBackend {
  std::string name;  // letters, digits and underscores
  // FAILED_PRECONDITION where this host cannot run it: tests are skipped.
  std::function<absl::StatusOr<std::unique_ptr<Backend>>()> create;
};

std::vector<ConformanceBackend> ConformanceBackends();

}  // namespace qgemm

#endif  // QGEMM_TESTS_CONFORMANCE_CONFORMANCE_BACKENDS_H_
