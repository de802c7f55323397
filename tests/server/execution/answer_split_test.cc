// SPDX-License-Identifier: Apache-2.0

#include "server/execution/answer_split.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace qgemm {
namespace {

TEST(AnswersInPlace, FewShortOnes) {
  EXPECT_TRUE(AnswersInPlace(0, 0));
  EXPECT_TRUE(AnswersInPlace(1, 8192));
  EXPECT_TRUE(AnswersInPlace(kMostAnswersInPlace, kMostAnswerBytesInPlace));
}

TEST(AnswersInPlace, NeitherManyNorLongOnes) {
  EXPECT_FALSE(AnswersInPlace(kMostAnswersInPlace + 1, 8192));
  EXPECT_FALSE(AnswersInPlace(1, kMostAnswerBytesInPlace + 1));
}

}  // namespace
}  // namespace qgemm
