// SPDX-License-Identifier: Apache-2.0
//
// AnswerChecker: which answers it looks at, and that it finds wrong ones.

#include "loadtest/verify/answer_checker.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr int64_t kPlenty = 1 << 20;

// As answers come, in pieces.
void Answer(AnswerChecker* checker, int message, int64_t sequence,
            const std::vector<absl::string_view>& pieces) {
  checker->OnAnswer(message, sequence, pieces);
}

TEST(AnswerCheckerTest, SaysNothingOfNoAnswers) {
  const AnswerChecker checker(VerifyMode::kAll, 2, kPlenty);
  const VerifyReport report = checker.Report();
  EXPECT_EQ(report.mode, "all");
  EXPECT_EQ(report.answers_compared, 0);
  EXPECT_TRUE(report.status.ok());
  EXPECT_EQ(checker.Kept(0), nullptr);
}

TEST(AnswerCheckerTest, EqualAnswersToOneMessagePass) {
  AnswerChecker checker(VerifyMode::kAll, 2, kPlenty);
  for (int i = 0; i < 3; ++i) {
    Answer(&checker, 0, i, {"same"});
    Answer(&checker, 1, i, {"another"});
  }
  const VerifyReport report = checker.Report();
  EXPECT_TRUE(report.status.ok()) << report.status;
  EXPECT_EQ(report.answers_compared, 6);
  EXPECT_EQ(report.answers_different, 0);
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

TEST(AnswerCheckerTest, OtherSizesAreFound) {
  for (const bool kept : {false, true}) {
    AnswerChecker checker(VerifyMode::kAll, 1, kept ? kPlenty : 0);
    Answer(&checker, 0, 0, {"bits"});
    Answer(&checker, 0, 1, {"bits", absl::string_view("\0", 1)});
    Answer(&checker, 0, 2, {"bit"});
    Answer(&checker, 0, 3, {});
    EXPECT_EQ(checker.Report().answers_different, 3);
  }
}

// Kept answers are compared byte by byte, the others by their CRC.
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

TEST(AnswerCheckerTest, KeepsTheFirstAnswerWhole) {
  AnswerChecker checker(VerifyMode::kAll, 2, kPlenty);
  Answer(&checker, 1, 0, {"fir", "st"});
  Answer(&checker, 1, 1, {"other"});
  ASSERT_NE(checker.Kept(1), nullptr);
  EXPECT_EQ(*checker.Kept(1), "first");
  EXPECT_EQ(checker.Kept(0), nullptr);
}

TEST(AnswerCheckerTest, KeepsAnswersAsLongAsThereIsRoom) {
  AnswerChecker checker(VerifyMode::kAll, 4, 10);
  Answer(&checker, 0, 0, {"123456"});
  Answer(&checker, 1, 1, {"12345"});  // one byte too many
  Answer(&checker, 2, 2, {"12", "34"});
  Answer(&checker, 3, 3, {"1"});
  EXPECT_NE(checker.Kept(0), nullptr);
  EXPECT_EQ(checker.Kept(1), nullptr);
  EXPECT_NE(checker.Kept(2), nullptr);
  EXPECT_EQ(checker.Kept(3), nullptr);
}

TEST(AnswerCheckerTest, ASampleIsALanesFirstAnswerAndOneInSixteen) {
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

// Regular distances would show a walk's layers of one parity alone.
TEST(AnswerCheckerTest, ASampleHasEveryRemainder) {
  for (int period : {2, 7, 16}) {
    for (int remainder = 0; remainder < period; ++remainder) {
      AnswerChecker checker(VerifyMode::kSample, 1, kPlenty);
      for (int i = remainder; i < 100 * 16 * period; i += period) {
        Answer(&checker, 0, i, {"bits"});
      }
      EXPECT_GT(checker.Report().answers_compared, 0);
    }
  }
}

TEST(AnswerCheckerTest, NoneLooksAtNothing) {
  AnswerChecker checker(VerifyMode::kNone, 1, kPlenty);
  Answer(&checker, 0, 0, {"bits"});
  Answer(&checker, 0, 1, {"bitz"});
  EXPECT_EQ(checker.Report().answers_compared, 0);
  EXPECT_EQ(checker.Report().answers_different, 0);
  EXPECT_EQ(checker.Kept(0), nullptr);
}

TEST(AnswerCheckerTest, LanesMayAnswerAtTheSameTime) {
  constexpr int kLanes = 4;
  constexpr int kAnswers = 500;
  AnswerChecker checker(VerifyMode::kAll, 3, kPlenty);
  std::vector<std::thread> lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back([&checker, lane] {
      for (int i = 0; i < kAnswers; ++i) {
        // The last answer of lane 0 comes after one of its own.
        const bool wrong = lane == 0 && i == kAnswers - 1;
        Answer(&checker, i % 3, i, {wrong ? "wrong" : "right"});
        checker.Kept(i % 3);
        checker.Report();
      }
    });
  }
  for (std::thread& lane : lanes) lane.join();
  EXPECT_EQ(checker.Report().answers_compared, kLanes * kAnswers);
  EXPECT_EQ(checker.Report().answers_different, 1);
}

}  // namespace
}  // namespace qgemm
