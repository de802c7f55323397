// SPDX-License-Identifier: Apache-2.0
//
// The shape of log lines, that lines of threads do not mix, and that a flood of
// them ends.

#include "base/log.h"

#include <csignal>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::MatchesRegex;

constexpr char kTimeAndPlace[] =
    " [0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+Z "
    "log_test\\.cc:[0-9]+\\] ";

TEST(LogTest, WritesOneLineWithSeverityTimeAndPlace) {
  testing::internal::CaptureStderr();
  LOG(INFO) << "listening on " << 8080;
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      MatchesRegex(absl::StrCat("I", kTimeAndPlace, "listening on 8080\n")));
}

TEST(LogTest, MarksEachSeverityByItsLetter) {
  testing::internal::CaptureStderr();
  LOG(WARNING) << "odd";
  LOG(ERROR) << "bad";
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex(absl::StrCat("W", kTimeAndPlace, "odd\nE",
                                        kTimeAndPlace, "bad\n")));
}

TEST(LogTest, LinesOfThreadsDoNotMix) {
  constexpr int kThreads = 4;
  constexpr int kLines = 40;  // together fewer than a burst
  const std::string payload(200, 'x');
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([id, &payload] {
      for (int line = 0; line < kLines; ++line) {
        LOG(INFO) << "thread" << id << payload << "end";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string captured = testing::internal::GetCapturedStderr();

  std::map<int, int> whole_lines;
  for (const absl::string_view line : absl::StrSplit(captured, '\n')) {
    for (int id = 0; id < kThreads; ++id) {
      if (absl::EndsWith(line, absl::StrCat("] thread", id, payload, "end"))) {
        ++whole_lines[id];
      }
    }
  }
  for (int id = 0; id < kThreads; ++id) {
    EXPECT_EQ(whole_lines[id], kLines) << "thread " << id;
  }
}

TEST(LogTest, ALineOfHostileTextIsOneLine) {
  testing::internal::CaptureStderr();
  LOG(INFO) << "name \nE forged";
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      MatchesRegex(absl::StrCat("I", kTimeAndPlace, "name \\\\nE forged\n")));
}

TEST(LogTest, AFloodOfAPlaceIsCut) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100'000; ++i) LOG(INFO) << "flood";
  EXPECT_LT(testing::internal::GetCapturedStderr().size(), 100'000u);
}

TEST(EventTest, WritesItsNameAndFields) {
  testing::internal::CaptureStderr();
  EVENT(WARNING, "weights_loaded")
      .With("id", "abc")
      .With("name", std::string("a b"))
      .With("bytes", uint64_t{1} << 40)
      .With("share", 0.5f)
      .With("took", absl::Milliseconds(12));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex(absl::StrCat(
                  "W", kTimeAndPlace,
                  "weights_loaded id=abc name=\"a b\" bytes=1099511627776 "
                  "share=0.5 took=12ms\n")));
}

TEST(EventTest, IsAnObjectInJson) {
  testing::internal::CaptureStderr();
  SetLogFormat(LogFormat::kJson);
  EVENT(INFO, "json_event").With("bytes", 5);
  LOG(INFO) << "plain";
  SetLogFormat(LogFormat::kText);
  const std::string captured = testing::internal::GetCapturedStderr();
  const std::vector<std::string> lines = absl::StrSplit(captured, '\n');
  ASSERT_EQ(lines.size(), 3u) << captured;
  EXPECT_EQ(nlohmann::json::parse(lines[0])["bytes"], 5);
  EXPECT_EQ(nlohmann::json::parse(lines[1])["message"], "plain");
  EXPECT_EQ(lines[2], "");
}

TEST(EventTest, AFloodOfAnEventIsCutAndOthersAreSeen) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100'000; ++i) EVENT(INFO, "flooding_event");
  EVENT(INFO, "other_event");
  const std::string captured = testing::internal::GetCapturedStderr();
  EXPECT_LT(captured.size(), 100'000u);
  EXPECT_TRUE(absl::StrContains(captured, "] other_event\n"));
}

TEST(EventTest, KindsOfAnEventHaveLimitsOfTheirOwn) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10'000; ++i) EVENT(INFO, "refused", "queue_full");
  EVENT(INFO, "refused", "quota").With("reason", "quota");
  EXPECT_TRUE(absl::StrContains(testing::internal::GetCapturedStderr(),
                                "] refused reason=quota\n"));
}

TEST(LogDeathTest, FatalWritesItsLineAndAborts) {
  EXPECT_EXIT(LOG(FATAL) << "out of order", testing::KilledBySignal(SIGABRT),
              "out of order");
}

}  // namespace
}  // namespace qgemm
