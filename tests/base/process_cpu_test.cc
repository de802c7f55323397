// SPDX-License-Identifier: Apache-2.0

#include "base/process_cpu.h"

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(ProcessCpuTest, GrowsWithWorkAndNeverFalls) {
  const absl::Duration before = ProcessCpu();
  absl::Duration last = before;
  while (last == before) {  // the loop is the work
    const absl::Duration next = ProcessCpu();
    ASSERT_GE(next, last);
    last = next;
  }
}

}  // namespace
}  // namespace qgemm
