// SPDX-License-Identifier: Apache-2.0
//
// Values that a header derives from its fields.

#include "kernels/matrix/weights.h"

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(WeightsHeaderTest, CountsAShortLastGroup) {
  WeightsHeader header;
  header.group_size = 32;
  header.k = 64;
  EXPECT_EQ(header.groups_per_row(), 2);
  header.k = 65;
  EXPECT_EQ(header.groups_per_row(), 3);
}

TEST(WeightsHeaderTest, CountsOneGroupWhenItSpansTheRow) {
  WeightsHeader header;
  header.k = 77;
  header.group_size = 77;
  EXPECT_EQ(header.groups_per_row(), 1);
}

}  // namespace
}  // namespace qgemm
