// SPDX-License-Identifier: Apache-2.0

#include "server/execution/answer_split.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace qgemm {
namespace {

TEST(AnswersATask, AllEndInPlaceWithoutThreads) {
  EXPECT_EQ(AnswersATask(64, int64_t{1} << 40, 0), 0);
}

TEST(AnswersATask, FewShortAnswersEndInPlace) {
  EXPECT_EQ(AnswersATask(0, 0, 4), 0);
  EXPECT_EQ(AnswersATask(1, 8192, 4), 0);
  EXPECT_EQ(AnswersATask(kMostAnswersInPlace, kMostAnswerBytesInPlace, 4), 0);
}

TEST(AnswersATask, OneLongAnswerIsATask) {
  EXPECT_GE(AnswersATask(1, kMostAnswerBytesInPlace + 1, 4), 1);
}

TEST(AnswersATask, TasksAreAtMostAsManyAsThreadsAndNotTooShort) {
  for (int threads = 1; threads <= 8; ++threads) {
    for (int64_t requests = kMostAnswersInPlace + 1; requests <= 64;
         ++requests) {
      const int64_t a_task = AnswersATask(requests, 64, threads);
      EXPECT_LE((requests + a_task - 1) / a_task, threads);
      EXPECT_GE(a_task, kFewestAnswersATask);
    }
  }
}

}  // namespace
}  // namespace qgemm
