// SPDX-License-Identifier: Apache-2.0
//
// Legal layers and batches pass; a refusal names the value.

#include "kernels/host/batch_checks.h"

#include <cstdint>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

class NoWeights final : public ResidentWeights {
 public:
  NoWeights() : ResidentWeights(1, 1) {}
  int64_t resident_bytes() const override { return 0; }
};

GemmBatch BatchOf(std::initializer_list<int64_t> rows) {
  static uint8_t operand;
  GemmBatch batch;
  batch.weights = std::make_shared<NoWeights>();
  for (const int64_t count : rows) {
    batch.segments.push_back({count, &operand, &operand});
  }
  return batch;
}

TEST(CheckBatchTest, AcceptsUpToTheLimitAndRefusesBeyond) {
  struct Case {
    std::initializer_list<int64_t> rows;
    bool legal;
  };
  const Case cases[] = {{{1}, true},         {{8}, true},     {{3, 5}, true},
                        {{}, false},         {{9}, false},    {{3, 6}, false},
                        {{0}, false},        {{4, 0}, false}, {{4, -1}, false},
                        {{INT64_MAX}, false}};
  for (const Case& c : cases) {
    const absl::Status status = CheckBatch(BatchOf(c.rows), 8);
    EXPECT_EQ(status.code(), c.legal ? absl::StatusCode::kOk
                                     : absl::StatusCode::kInvalidArgument)
        << status;
  }
}

TEST(CheckBatchTest, RefusesMissingWeightsAndOperands) {
  GemmBatch no_weights = BatchOf({1});
  no_weights.weights = nullptr;
  EXPECT_THAT(std::string(CheckBatch(no_weights, 8).message()),
              HasSubstr("no weights"));
  GemmBatch no_result = BatchOf({1});
  no_result.segments[0].c = nullptr;
  EXPECT_THAT(std::string(CheckBatch(no_result, 8).message()),
              HasSubstr("without operands"));
}

TEST(CheckLayerLimitsTest, NamesTheExtentThatIsBeyond) {
  BackendLimits limits;
  limits.max_n = 10;
  limits.max_k = 20;
  WeightsShape shape;
  shape.n = 10;
  shape.k = 20;
  EXPECT_EQ(CheckLayerLimits(shape, limits), absl::OkStatus());
  shape.k = 21;
  EXPECT_EQ(CheckLayerLimits(shape, limits).message(),
            "weights: k = 21 is not between 1 and 20");
  shape.n = 0;
  EXPECT_EQ(CheckLayerLimits(shape, limits).message(),
            "weights: n = 0 is not between 1 and 10");
}

TEST(CheckRoundingTest, RefusesRoundingToFp32OnlyWhereItRounds) {
  MatmulSignature signature;
  signature.rounding = FloatType::kFloat32;
  EXPECT_EQ(CheckRounding(signature), absl::OkStatus());
  signature.a_type = FloatType::kFloat32;
  EXPECT_EQ(CheckRounding(signature).code(),
            absl::StatusCode::kInvalidArgument);
  signature.mode = ComputeMode::kA32;
  EXPECT_EQ(CheckRounding(signature), absl::OkStatus());
}

TEST(CheckOptionsTest, NamesTheFirstOptionThatIsTooSmall) {
  EXPECT_EQ(CheckOptions("cpu backend", {{"threads", 0}}), absl::OkStatus());
  EXPECT_EQ(
      CheckOptions("cpu backend", {{"threads", 0}, {"max_n", -1}}).message(),
      "cpu backend: max_n = -1 is below 0");
  EXPECT_EQ(CheckOptions("cpu backend", {{"threads", 0}}, 1).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm
