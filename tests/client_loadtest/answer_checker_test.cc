// SPDX-License-Identifier: Apache-2.0
//
// AnswerChecker: which answers it looks at, and that it finds wrong ones.

#include "client/loadtest/answer_checker.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/loadtest/random_operands.h"
#include "gtest/gtest.h"
#include "kernels/matrix/fp64_oracle.h"

namespace qgemm {
namespace {

TEST(AnswerChecker, EqualAnswersToOneInputPass) {
  AnswerChecker checker(VerifyMode::kAll, 2);
  for (int i = 0; i < 3; ++i) {
    checker.OnAnswer(0, i, "same");
    checker.OnAnswer(1, i, "other input");
  }
  const VerifyReport report = checker.CompareBits();
  EXPECT_TRUE(report.status.ok()) << report.status;
  EXPECT_EQ(report.answers_compared, 6);
  EXPECT_EQ(report.answers_different, 0);
}

TEST(AnswerChecker, OtherBitsForTheSameInputAreFound) {
  AnswerChecker checker(VerifyMode::kAll, 1);
  checker.OnAnswer(0, 0, "bits");
  checker.OnAnswer(0, 1, "bitz");
  checker.OnAnswer(0, 2, "bits");
  const VerifyReport report = checker.CompareBits();
  EXPECT_EQ(report.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(report.answers_different, 1);
}

TEST(AnswerChecker, SampleLooksAtEverySixteenthAnswer) {
  AnswerChecker checker(VerifyMode::kSample, 1);
  for (int i = 0; i < 33; ++i) checker.OnAnswer(0, i, "bits");
  EXPECT_EQ(checker.CompareBits().answers_compared, 3);
}

TEST(AnswerChecker, NoneLooksAtNothing) {
  AnswerChecker checker(VerifyMode::kNone, 1);
  checker.OnAnswer(0, 0, "bits");
  checker.OnAnswer(0, 1, "bitz");
  EXPECT_EQ(checker.CompareBits().answers_compared, 0);
}

// A small layer, inputs, and answers that the oracle itself rounds to fp32.
class AnswerCheckerOracle : public testing::Test {
 protected:
  static constexpr int64_t kM = 2;
  static constexpr int64_t kN = 9;
  static constexpr int64_t kK = 64;
  static constexpr int kInputs = 3;

  void SetUp() override {
    seed_ = std::random_device()();
    RecordProperty("seed", static_cast<int>(seed_));
    const auto encoded = MakeRandomWeights("kbit4", {kK, kN}, seed_);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    auto weights = DecodeWeights(*encoded);
    ASSERT_TRUE(weights.ok()) << weights.status();
    weights_ = *std::move(weights);
    signature_.c_type = FloatType::kFloat32;
    for (int i = 0; i < kInputs; ++i) {
      inputs_.push_back(
          MakeRandomActivations(signature_.a_type, kM * kK, seed_ + 1 + i));
    }
  }

  std::vector<float> RightAnswer(int input) const {
    const OracleProduct product =
        Fp64Matmul(weights_, signature_, inputs_[input], kM);
    return {product.values.begin(), product.values.end()};
  }

  static std::string AsBytes(const std::vector<float>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()),
                       values.size() * sizeof(float));
  }

  VerifyReport Check(const AnswerChecker& checker) const {
    return checker.CompareWithFp64({weights_, signature_, kM, inputs_, seed_});
  }

  uint32_t seed_ = 0;
  CanonicalWeights weights_;
  MatmulSignature signature_;
  std::vector<std::vector<uint8_t>> inputs_;
};

TEST_F(AnswerCheckerOracle, RightAnswersPassElementByElement) {
  AnswerChecker checker(VerifyMode::kAll, kInputs);
  for (int i = 0; i < kInputs; ++i) {
    checker.OnAnswer(i, 0, AsBytes(RightAnswer(i)));
  }
  const VerifyReport report = Check(checker);
  EXPECT_TRUE(report.status.ok()) << report.status << " seed " << seed_;
  EXPECT_EQ(report.elements_checked, kInputs * kM * kN);
  EXPECT_LE(report.worst_tolerance_used, 1.0);
}

TEST_F(AnswerCheckerOracle, OneWrongElementIsFound) {
  AnswerChecker checker(VerifyMode::kAll, kInputs);
  for (int i = 0; i < kInputs; ++i) {
    std::vector<float> c = RightAnswer(i);
    // Far outside any tolerance: |c| is at most the sum of |a * w|.
    if (i == 1) c[kN + 4] += 1e6f;
    checker.OnAnswer(i, 0, AsBytes(c));
  }
  const VerifyReport report = Check(checker);
  EXPECT_EQ(report.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_GT(report.worst_tolerance_used, 1.0);
}

TEST_F(AnswerCheckerOracle, AnAnswerOfTheWrongSizeIsFound) {
  AnswerChecker checker(VerifyMode::kAll, kInputs);
  checker.OnAnswer(0, 0, "short");
  EXPECT_EQ(Check(checker).status.code(), absl::StatusCode::kDataLoss);
}

TEST_F(AnswerCheckerOracle, InputsWithoutAnAnswerAreLeftOut) {
  AnswerChecker checker(VerifyMode::kAll, kInputs);
  checker.OnAnswer(2, 0, AsBytes(RightAnswer(2)));
  const VerifyReport report = Check(checker);
  EXPECT_TRUE(report.status.ok()) << report.status << " seed " << seed_;
  EXPECT_EQ(report.elements_checked, kM * kN);
}

}  // namespace
}  // namespace qgemm
