// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/partial_operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PartialOperands, TakesAsMuchAsTheLimitAndNoMore) {
  PartialOperands operands(100);
  auto first = operands.Take(60);
  ASSERT_TRUE(first.ok());
  const auto second = operands.Take(41);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr("60"), HasSubstr("41"), HasSubstr("100"),
                    HasSubstr("--max_queued_bytes")));
  EXPECT_TRUE(operands.Take(40).ok());
}

TEST(PartialOperands, ASharesBytesGoBackOnceWithItsLastOwner) {
  PartialOperands operands(100);
  {
    auto share = operands.Take(100);
    ASSERT_TRUE(share.ok());
    PartialOperands::Share moved = *std::move(share);
    PartialOperands::Share again;
    again = std::move(moved);
    EXPECT_FALSE(operands.Take(1).ok());
  }
  EXPECT_TRUE(operands.Take(100).ok());
}

TEST(PartialOperands, RefusesWhatWouldOverflow) {
  PartialOperands operands(100);
  const auto held = operands.Take(100);
  EXPECT_FALSE(operands.Take(std::numeric_limits<int64_t>::max()).ok());
}

}  // namespace
}  // namespace qgemm
