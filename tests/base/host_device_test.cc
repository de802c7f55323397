// SPDX-License-Identifier: Apache-2.0
//
// The divisions of host and device, in each width.

#include "base/host_device.h"

#include <cstdint>
#include <limits>
#include <type_traits>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

static_assert(CeilDiv(7, 4) == 2 && RoundUp(7, 4) == 8, "usable in constants");
static_assert(std::is_same_v<decltype(CeilDiv(1, 1)), int>, "stays narrow");
static_assert(std::is_same_v<decltype(CeilDiv(int64_t{1}, 1)), int64_t>,
              "takes the wider type");
static_assert(std::is_same_v<decltype(RoundUp(1u, 1u)), unsigned>,
              "stays unsigned");

TEST(HostDeviceTest, CeilDivIsTheSmallestSufficientCount) {
  for (int64_t b = 1; b <= 40; ++b) {
    for (int64_t a = 0; a <= 200; ++a) {
      const int64_t count = CeilDiv(a, b);
      ASSERT_GE(count * b, a) << a << " / " << b;
      ASSERT_LT((count - 1) * b, a) << a << " / " << b;
    }
  }
}

TEST(HostDeviceTest, CeilDivDoesNotOverflowAtTheTop) {
  EXPECT_EQ(CeilDiv(kMax, 1), kMax);
  EXPECT_EQ(CeilDiv(kMax, 2), kMax / 2 + 1);
  EXPECT_EQ(CeilDiv(kMax, kMax), 1);
  EXPECT_EQ(CeilDiv(1, kMax), 1);
}

TEST(HostDeviceTest, RoundUpIsTheNextMultiple) {
  EXPECT_EQ(RoundUp(0, 32), 0);
  EXPECT_EQ(RoundUp(1, 32), 32);
  EXPECT_EQ(RoundUp(32, 32), 32);
  EXPECT_EQ(RoundUp(33, 32), 64);
}

}  // namespace
}  // namespace qgemm
