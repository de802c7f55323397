// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/stream_answer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace qgemm {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(AnswerFragmentBytes, FitAStockClientUnlessAskedOtherwise) {
  EXPECT_EQ(AnswerFragmentBytes(0, 64 * kMiB), 4193280);
  EXPECT_EQ(AnswerFragmentBytes(5 * kMiB, 64 * kMiB), 5 * kMiB);
}

TEST(AnswerFragmentBytes, FitTheServersMessages) {
  EXPECT_EQ(AnswerFragmentBytes(0, kMiB), kMiB);
  EXPECT_EQ(AnswerFragmentBytes(std::numeric_limits<uint64_t>::max(), kMiB),
            kMiB);
}

}  // namespace
}  // namespace qgemm
