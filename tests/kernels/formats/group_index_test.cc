// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/section_decoder.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SortByGroup, KeepsTheOrderWithinAGroup) {
  const std::vector<int32_t> index = {1, 0, 1, 2, 0, 2};
  const auto order = SortByGroup(index, 2);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_THAT(*order, ElementsAre(1, 4, 0, 2, 3, 5));
}

TEST(SortByGroup, NamesAnEntryThatIsNoGroup) {
  for (const int32_t bad : {-1, 2, INT32_MIN, INT32_MAX}) {
    const std::vector<int32_t> index = {0, 1, bad, 1};
    const absl::Status status = SortByGroup(index, 2).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("group_index[2]"));
  }
}

TEST(SortByGroup, NamesTheMemberThatIsTooMany) {
  const std::vector<int32_t> index = {0, 1, 0, 0};
  const absl::Status status = SortByGroup(index, 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("group_index[3] = 0: that group has more than 2"));
}

}  // namespace
}  // namespace qgemm
