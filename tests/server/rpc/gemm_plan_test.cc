// SPDX-License-Identifier: Apache-2.0
//
// Which sizes of a Gemm are refused, by which code and with which words.

#include "server/rpc/gemm_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const GemmLimits kLimits = {MessageResultLimit(1 << 20),
                            /*max_batch_rows=*/1024};

// fp16 in and out.
GemmShape Shape(uint64_t m, int64_t n, int64_t k) {
  GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.a_bytes = static_cast<int64_t>(m) * k * 2;
  return shape;
}

TEST(PlanGemm, GivesTheBytesOfBothOperands) {
  GemmShape shape = Shape(3, 5, 7);
  shape.signature.c_type = FloatType::kFloat32;

  const auto plan = PlanGemm(shape, kLimits);

  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->m, 3);
  EXPECT_EQ(plan->a_bytes, 3 * 7 * 2);
  EXPECT_EQ(plan->c_bytes, 3 * 5 * 4);
}

TEST(PlanGemm, RefusesNoRows) {
  const auto plan = PlanGemm(Shape(0, 5, 7), kLimits);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().message(), HasSubstr("m = 0"));
}

TEST(PlanGemm, TakesTheLargestBatchAndRefusesOneRowMore) {
  EXPECT_TRUE(PlanGemm(Shape(1024, 5, 7), kLimits).ok());
  const auto plan = PlanGemm(Shape(1025, 5, 7), kLimits);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().message(),
              AllOf(HasSubstr("m = 1025"), HasSubstr("1024")));
}

TEST(PlanGemm, RefusesRowsAboveInt64) {
  GemmShape shape = Shape(1, 5, 7);
  shape.m = uint64_t{1} << 63;
  const auto plan = PlanGemm(shape, kLimits);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().message(), HasSubstr("m = 9223372036854775808"));
}

TEST(PlanGemm, RefusesProductsThatOverflow) {
  GemmLimits limits = kLimits;
  limits.max_batch_rows = std::numeric_limits<int64_t>::max();
  GemmShape shape = Shape(1, 5, int64_t{1} << 40);
  shape.m = uint64_t{1} << 40;  // 2^81 bytes
  shape.a_bytes = 0;            // what 2^81 wraps to
  const auto plan = PlanGemm(shape, limits);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlanGemm, NamesBothByteCountsWhenTheyDisagree) {
  GemmShape shape = Shape(3, 5, 7);
  shape.a_bytes = 41;
  const auto plan = PlanGemm(shape, kLimits);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().message(),
              AllOf(HasSubstr("41 bytes"), HasSubstr("m = 3"),
                    HasSubstr("k = 7"), HasSubstr("42")));
}

TEST(PlanGemm, RefusesAnAnswerThatFillsTheMessage) {
  // 1024 * 512 * 2 bytes is the whole limit, and an answer holds more than c.
  const auto plan = PlanGemm(Shape(1024, 512, 1), kLimits);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.status().message(),
              AllOf(HasSubstr("1048576"), HasSubstr("--max_message_bytes"),
                    HasSubstr("split the rows")));
}

TEST(PlanGemm, OfAStreamTakesAResultOfTheWholeLimitAndNoMore) {
  GemmLimits limits = kLimits;
  limits.result = StreamResultLimit(1 << 20);
  EXPECT_TRUE(PlanGemm(Shape(1024, 512, 1), limits).ok());
  const auto plan = PlanGemm(Shape(1024, 513, 1), limits);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      plan.status().message(),
      AllOf(HasSubstr("1048576"), HasSubstr("--max_stream_operand_bytes")));
}

TEST(PlanGemm, TakesAnAnswerThatFits) {
  EXPECT_TRUE(PlanGemm(Shape(1024, 511, 1), kLimits).ok());
}

}  // namespace
}  // namespace qgemm
