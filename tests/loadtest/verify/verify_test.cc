// SPDX-License-Identifier: Apache-2.0
//
// The answers that are compared, that one flipped bit is found, and that fp64
// finds wrong elements in answers that the oracle itself rounds.

#include "loadtest/verify/verify.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/matrix/fp64_oracle.h"
#include "loadtest/workload/synthetic_layers.h"

namespace qgemm::loadtest {
namespace {

constexpr int64_t kPlenty = 1 << 20;

// As answers come, in pieces.
void Answer(AnswerChecker* checker, int message, int64_t sequence,
            const std::vector<absl::string_view>& pieces) {
  checker->OnAnswer(message, sequence, pieces);
}

TEST(AnswerCheckerTest, HowAnAnswerIsCutDoesNotMatter) {
  AnswerChecker checker(VerifyMode::kAll, 1, kPlenty);
  Answer(&checker, 0, 0, {"the ", "same", " bits"});
  Answer(&checker, 0, 1, {"the same bits"});
  Answer(&checker, 0, 2, {"", "t", "he same bit", "", "s"});
  EXPECT_EQ(checker.Report().answers_different, 0);
}

TEST(AnswerCheckerTest, OtherBitsForTheSameMessageAreFound) {
  AnswerChecker checker(VerifyMode::kAll, 8, kPlenty);
  Answer(&checker, 7, 0, {"bi", "ts"});
  Answer(&checker, 7, 1, {"bi", "tz"});
  Answer(&checker, 7, 2, {"bits"});
  Answer(&checker, 7, 3, {"zits"});
  const VerifyReport report = checker.Report();
  EXPECT_EQ(report.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(report.status.message()),
              testing::HasSubstr("request 7"));
  EXPECT_EQ(report.answers_compared, 4);
  EXPECT_EQ(report.answers_different, 2);
}

TEST(AnswerCheckerTest, EverySingleFlippedBitIsFound) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::string answer(67, '\0');
  for (char& byte : answer) byte = static_cast<char>(random());
  for (const int64_t room : {int64_t{0}, kPlenty}) {
    AnswerChecker checker(VerifyMode::kAll, 1, room);
    Answer(&checker, 0, 0, {answer});
    const int bits = static_cast<int>(answer.size()) * 8;
    for (int bit = 0; bit < bits; ++bit) {
      std::string flipped = answer;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      const size_t cut = random() % flipped.size();
      Answer(&checker, 0, 1 + bit,
             {absl::string_view(flipped).substr(0, cut),
              absl::string_view(flipped).substr(cut)});
    }
    EXPECT_EQ(checker.Report().answers_different, bits) << room << " bytes";
  }
}

TEST(AnswerCheckerTest, ASampleIsASendersFirstAnswerAndOneInSixteen) {
  constexpr int kAnswers = 16000;
  AnswerChecker checker(VerifyMode::kSample, 1, kPlenty);
  for (int i = 0; i < kAnswers; ++i) {
    Answer(&checker, 0, i, {"bits"});
    if (i == 0) {
      EXPECT_EQ(checker.Report().answers_compared, 1);
    }
  }
  EXPECT_EQ(checker.Report().mode, "sample");
  // Binomial, five standard deviations; it is the same in every run.
  EXPECT_NEAR(static_cast<double>(checker.Report().answers_compared),
              kAnswers / 16.0, 5 * std::sqrt(kAnswers / 16.0 * 15 / 16));
}

TEST(AnswerCheckerTest, NoneLooksAtNothing) {
  AnswerChecker checker(VerifyMode::kNone, 1, kPlenty);
  Answer(&checker, 0, 0, {"bits"});
  Answer(&checker, 0, 1, {"bitz"});
  EXPECT_EQ(checker.Report().answers_compared, 0);
  EXPECT_EQ(checker.Report().answers_different, 0);
  EXPECT_EQ(checker.Kept(0), nullptr);
}

TEST(AnswerCheckerTest, SendersMayAnswerAtTheSameTime) {
  constexpr int kSenders = 4;
  constexpr int kAnswers = 500;
  AnswerChecker checker(VerifyMode::kAll, 3, kPlenty);
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&checker, sender] {
      for (int i = 0; i < kAnswers; ++i) {
        // The last answer of sender 0 comes after one of its own.
        const bool wrong = sender == 0 && i == kAnswers - 1;
        Answer(&checker, i % 3, i, {wrong ? "wrong" : "right"});
        checker.Kept(i % 3);
        checker.Report();
      }
    });
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_EQ(checker.Report().answers_compared, kSenders * kAnswers);
  EXPECT_EQ(checker.Report().answers_different, 1);
}

class Fp64CheckTest : public testing::Test {
 protected:
  static constexpr int64_t kN = 40;
  static constexpr int64_t kK = 64;

  void SetUp() override {
    seed_ = std::random_device{}();
    const auto encoded = MakeRandomWeights("kbit4", kK, kN, seed_);
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

TEST_F(Fp64CheckTest, RightAnswersPassElementByElement) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  const VerifyReport report =
      Check({RightAnswer("a", 1), RightAnswer("b", 5), RightAnswer("c", 16)});
  EXPECT_TRUE(report.status.ok()) << report.status;
  EXPECT_EQ(report.elements_checked, 22 * kN);
  EXPECT_LE(report.worst_tolerance_used, 1.0);
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

}  // namespace

}  // namespace qgemm::loadtest
