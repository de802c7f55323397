// SPDX-License-Identifier: Apache-2.0
//
// The shape of log lines, and that lines of threads do not mix.

#include "base/log.h"

#include <csignal>
#include <map>
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
  constexpr int kLines = 100;
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

TEST(LogDeathTest, FatalWritesItsLineAndAborts) {
  EXPECT_EXIT(LOG(FATAL) << "out of order", testing::KilledBySignal(SIGABRT),
              "out of order");
}

}  // namespace
}  // namespace qgemm
