// SPDX-License-Identifier: Apache-2.0
//
// qgemm_server as a process of its own.

#ifndef QGEMM_TESTS_END_TO_END_CHILD_SERVER_H_
#define QGEMM_TESTS_END_TO_END_CHILD_SERVER_H_

#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace qgemm {

class ChildServer final : public ChildProcess {
 public:
  explicit ChildServer(const std::vector<std::string>& flags)
      : ChildProcess("server/qgemm_server", flags) {}

  // The first TCP address that it says it serves on.
  std::string WaitForAddress() { return WaitForOutput("serving on "); }
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_CHILD_SERVER_H_
