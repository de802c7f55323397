// SPDX-License-Identifier: Apache-2.0
//
// CheckAgainstFp64 over a small layer, with answers that the oracle itself
// rounds.

#include "loadtest/verify/fp64_check.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "loadtest/workload/random_operands.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/matrix/fp64_oracle.h"

namespace qgemm {
namespace {

class Fp64CheckTest : public testing::Test {
 protected:
  static constexpr int64_t kN = 40;
  static constexpr int64_t kK = 64;

  void SetUp() override {
    seed_ = std::random_device{}();
    const auto encoded = MakeRandomWeights("kbit4", {kK, kN}, seed_);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    auto weights = DecodeWeights(*encoded);
    ASSERT_TRUE(weights.ok()) << weights.status();
    weights_ = *std::move(weights);
    signature_.c_type = FloatType::kFloat32;
  }

  // Some rows and what the oracle makes of them.
  AnsweredRequest RightAnswer(const std::string& name, int64_t m) {
    AnsweredRequest answer;
    answer.name = name;
    answer.m = m;
    answer.a = MakeRandomActivations(signature_.a_type, m * kK, ++seed_);
    const OracleProduct product = Fp64Matmul(weights_, signature_, answer.a, m);
    SetC(&answer, {product.values.begin(), product.values.end()});
    return answer;
  }

  static void SetC(AnsweredRequest* answer, const std::vector<float>& c) {
    std::string bytes(c.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), c.data(), bytes.size());
    answer->c = std::make_shared<const std::string>(std::move(bytes));
  }

  static std::vector<float> CopyOfC(const AnsweredRequest& answer) {
    std::vector<float> c(answer.c->size() / sizeof(float));
    std::memcpy(c.data(), answer.c->data(), answer.c->size());
    return c;
  }

  // Far outside any tolerance: |c| is at most the sum of |a * w|.
  static void Spoil(AnsweredRequest* answer, size_t element) {
    std::vector<float> c = CopyOfC(*answer);
    c[element] += 1e6f;
    SetC(answer, c);
  }

  VerifyReport Check(const std::vector<AnsweredRequest>& answers,
                     const Fp64Budget& budget = {}) const {
    VerifyReport report;
    CheckAgainstFp64(weights_, signature_, answers, budget, &report);
    return report;
  }

  uint64_t seed_ = 0;
  CanonicalWeights weights_;
  MatmulSignature signature_;
};

TEST_F(Fp64CheckTest, NothingToCheckIsNothingWrong) {
  const VerifyReport report = Check({});
  EXPECT_TRUE(report.status.ok());
  EXPECT_EQ(report.elements_checked, 0);
}

TEST_F(Fp64CheckTest, RightAnswersPassElementByElement) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  const VerifyReport report =
      Check({RightAnswer("a", 1), RightAnswer("b", 5), RightAnswer("c", 16)});
  EXPECT_TRUE(report.status.ok()) << report.status;
  EXPECT_EQ(report.elements_checked, 22 * kN);
  EXPECT_LE(report.worst_tolerance_used, 1.0);
}

TEST_F(Fp64CheckTest, ManyRowsTakeSeveralPasses) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  std::vector<AnsweredRequest> answers;
  int64_t rows = 0;
  for (int64_t m : {63, 1, 1, 64, 65, 2, 200, 3}) {
    answers.push_back(RightAnswer("rows", m));
    rows += m;
  }
  const VerifyReport report = Check(answers);
  EXPECT_TRUE(report.status.ok()) << report.status;
  EXPECT_EQ(report.elements_checked, rows * kN);
}

TEST_F(Fp64CheckTest, OneWrongElementIsFoundInWhicheverAnswer) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  for (size_t wrong = 0; wrong < 4; ++wrong) {
    std::vector<AnsweredRequest> answers = {
        RightAnswer("a", 3), RightAnswer("b", 70), RightAnswer("c", 2),
        RightAnswer("d", 1)};
    Spoil(&answers[wrong], answers[wrong].m * kN - 1);
    const VerifyReport report = Check(answers);
    EXPECT_EQ(report.status.code(), absl::StatusCode::kDataLoss) << wrong;
    EXPECT_GT(report.worst_tolerance_used, 1.0);
    EXPECT_EQ(report.elements_checked, 76 * kN);
  }
}

TEST_F(Fp64CheckTest, NotANumberIsFound) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  AnsweredRequest answer = RightAnswer("a", 2);
  std::vector<float> c = CopyOfC(answer);
  c[kN + 3] = std::numeric_limits<float>::quiet_NaN();
  SetC(&answer, c);
  EXPECT_EQ(Check({answer}).status.code(), absl::StatusCode::kDataLoss);
}

TEST_F(Fp64CheckTest, AnswersThatAreSwappedAreFound) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  std::vector<AnsweredRequest> answers = {RightAnswer("a", 4),
                                          RightAnswer("b", 4)};
  std::swap(answers[0].c, answers[1].c);
  EXPECT_EQ(Check(answers).status.code(), absl::StatusCode::kDataLoss);
}

TEST_F(Fp64CheckTest, AnAnswerOfTheWrongSizeIsFoundByName) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  for (const int64_t rows : {1, 3}) {
    AnsweredRequest wrong = RightAnswer("input 3 of m=16", rows);
    wrong.m = 2;
    const VerifyReport report = Check({RightAnswer("a", 1), wrong});
    EXPECT_EQ(report.status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(report.status.message()),
                testing::HasSubstr("input 3 of m=16"));
    EXPECT_EQ(report.elements_checked, kN);  // of the other
  }
}

TEST_F(Fp64CheckTest, AddsToWhatTheReportHolds) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  VerifyReport report;
  report.elements_checked = 1000;
  report.worst_tolerance_used = 7;
  report.status = absl::DataLossError("found before");
  AnsweredRequest wrong = RightAnswer("a", 1);
  std::vector<float> c = CopyOfC(wrong);
  c.pop_back();
  SetC(&wrong, c);
  CheckAgainstFp64(weights_, signature_, {RightAnswer("b", 1), wrong}, {},
                   &report);
  EXPECT_EQ(report.elements_checked, 1000 + kN);
  EXPECT_EQ(report.worst_tolerance_used, 7);
  EXPECT_EQ(report.status.message(), "found before");
}

// Multiply-adds of a check: rows * k of each column that is compared.
TEST_F(Fp64CheckTest, ABudgetIsKeptByLeavingColumnsOut) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  constexpr int64_t kRows = 9;
  const std::vector<AnsweredRequest> answers = {RightAnswer("a", kRows)};
  for (int64_t columns = 1; columns <= kN; ++columns) {
    Fp64Budget budget;
    budget.multiply_adds = static_cast<double>((kRows + 1) * kK * columns);
    budget.seed = seed_ + columns;
    const VerifyReport report = Check(answers, budget);
    EXPECT_TRUE(report.status.ok()) << report.status;
    EXPECT_LE(report.elements_checked, kRows * columns);
    EXPECT_GE(report.elements_checked, kRows);
  }
}

TEST_F(Fp64CheckTest, TheLeastBudgetStillComparesAColumn) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  EXPECT_EQ(Check({RightAnswer("a", 3)}, {1e-3, seed_}).elements_checked, 3);
}

TEST_F(Fp64CheckTest, SeedsTogetherReachEveryColumn) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  std::vector<AnsweredRequest> answers = {RightAnswer("a", 1)};
  for (int64_t column = 0; column < kN; ++column) {
    std::vector<AnsweredRequest> spoilt = answers;
    Spoil(&spoilt[0], column);
    bool found = false;
    for (uint64_t seed = 0; seed < kN; ++seed) {
      found = found || !Check(spoilt, {1e-3, seed}).status.ok();
    }
    EXPECT_TRUE(found) << "column " << column;
  }
}

}  // namespace
}  // namespace qgemm
