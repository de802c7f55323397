// SPDX-License-Identifier: Apache-2.0
//
// Sizes of a Gemm that are refused, the code and the words.

#include "server/rpc/gemm_request_builder.h"

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

TEST(CheckGemmSizes, GivesTheBytesOfBothOperands) {
  GemmShape shape = Shape(3, 5, 7);
  shape.signature.c_type = FloatType::kFloat32;

  const auto sizes = CheckGemmSizes(shape, kLimits);

  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->m, 3);
  EXPECT_EQ(sizes->a_bytes, 3 * 7 * 2);
  EXPECT_EQ(sizes->c_bytes, 3 * 5 * 4);
}

TEST(CheckGemmSizes, RefusesNoRows) {
  const auto sizes = CheckGemmSizes(Shape(0, 5, 7), kLimits);
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(sizes.status().message(), HasSubstr("m = 0"));
}

TEST(CheckGemmSizes, TakesTheLargestBatchAndRefusesOneRowMore) {
  EXPECT_TRUE(CheckGemmSizes(Shape(1024, 5, 7), kLimits).ok());
  const auto sizes = CheckGemmSizes(Shape(1025, 5, 7), kLimits);
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(sizes.status().message(),
              AllOf(HasSubstr("m = 1025"), HasSubstr("1024")));
}

TEST(CheckGemmSizes, RefusesRowsAboveInt64) {
  GemmShape shape = Shape(1, 5, 7);
  shape.m = uint64_t{1} << 63;
  const auto sizes = CheckGemmSizes(shape, kLimits);
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(sizes.status().message(), HasSubstr("m = 9223372036854775808"));
}

TEST(CheckGemmSizes, RefusesProductsThatOverflow) {
  GemmLimits limits = kLimits;
  limits.max_batch_rows = std::numeric_limits<int64_t>::max();
  GemmShape shape = Shape(1, 5, int64_t{1} << 40);
  shape.m = uint64_t{1} << 40;  // 2^81 bytes
  shape.a_bytes = 0;            // what 2^81 wraps to
  const auto sizes = CheckGemmSizes(shape, limits);
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CheckGemmSizes, NamesBothByteCountsWhenTheyDisagree) {
  GemmShape shape = Shape(3, 5, 7);
  shape.a_bytes = 41;
  const auto sizes = CheckGemmSizes(shape, kLimits);
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(sizes.status().message(),
              AllOf(HasSubstr("41 bytes"), HasSubstr("m = 3"),
                    HasSubstr("k = 7"), HasSubstr("42")));
}

TEST(CheckGemmSizes, RefusesAnAnswerThatFillsTheMessage) {
  // 1024 * 512 * 2 bytes is the whole limit, and an answer holds more than c.
  const auto sizes = CheckGemmSizes(Shape(1024, 512, 1), kLimits);
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(sizes.status().message(),
              AllOf(HasSubstr("1048576"), HasSubstr("--max_message_bytes"),
                    HasSubstr("split the rows")));
}

TEST(CheckGemmSizes, OfAStreamTakesAResultOfTheWholeLimitAndNoMore) {
  GemmLimits limits = kLimits;
  limits.result = StreamResultLimit(1 << 20);
  EXPECT_TRUE(CheckGemmSizes(Shape(1024, 512, 1), limits).ok());
  const auto sizes = CheckGemmSizes(Shape(1024, 513, 1), limits);
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      sizes.status().message(),
      AllOf(HasSubstr("1048576"), HasSubstr("--max_stream_operand_bytes")));
}

TEST(CheckGemmSizes, TakesAnAnswerThatFits) {
  EXPECT_TRUE(CheckGemmSizes(Shape(1024, 511, 1), kLimits).ok());
}

TEST(CheckQueueHolds, RefusesOperandsThatItNeverHasRoomFor) {
  GemmSizes sizes;
  sizes.a_bytes = 60;
  sizes.c_bytes = 40;
  EXPECT_TRUE(CheckQueueHolds(sizes, 100).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(CheckQueueHolds(sizes, 99)));
  EXPECT_TRUE(absl::IsResourceExhausted(CheckQueueHolds(sizes, 0)));
}

}  // namespace
}  // namespace qgemm
