// SPDX-License-Identifier: Apache-2.0

#include "base/host_memory.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(HostMemoryTest, IsWholePagesAndMoreThanThisProcessNeeds) {
  EXPECT_GE(HostMemoryBytes(), int64_t{64} << 20);
  EXPECT_EQ(HostMemoryBytes() % sysconf(_SC_PAGE_SIZE), 0);
}

}  // namespace
}  // namespace qgemm
