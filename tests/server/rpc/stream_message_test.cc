// SPDX-License-Identifier: Apache-2.0
//
// The sizes and times of a first message; what is wrong with one is tested in
// tests/end_to_end, by its answer.

#include "server/rpc/stream_message.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace qgemm {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr uint64_t kMostUint64 = std::numeric_limits<uint64_t>::max();

TEST(OperandBytes, AreThoseThatCameUnlessTheMessageSaysMore) {
  v1::GemmStreamRequest message;
  ReceivedPayload a;
  a.bytes = 100;
  EXPECT_EQ(OperandBytes(message, a), 100u);
  message.set_a_bytes(kMostUint64);
  EXPECT_EQ(OperandBytes(message, a), kMostUint64);
}

TEST(FragmentBytes, FitAStockClientUnlessAskedOtherwise) {
  v1::GemmStreamRequest message;
  EXPECT_LT(FragmentBytes(message, 64 * kMiB), 4 * kMiB);
  message.set_c_fragment_bytes(5 * kMiB);
  EXPECT_EQ(FragmentBytes(message, 64 * kMiB), 5 * kMiB);
}

TEST(FragmentBytes, FitTheServersMessages) {
  v1::GemmStreamRequest message;
  EXPECT_EQ(FragmentBytes(message, kMiB), MaxResultBytes(kMiB));
  message.set_c_fragment_bytes(kMostUint64);
  EXPECT_EQ(FragmentBytes(message, kMiB), MaxResultBytes(kMiB));
}

TEST(DeadlineAfter, IsNeverForATimeoutOfZeroOrOfAges) {
  const absl::Time arrival = absl::UnixEpoch();
  EXPECT_EQ(DeadlineAfter(arrival, 0), absl::InfiniteFuture());
  EXPECT_EQ(DeadlineAfter(arrival, 250), arrival + absl::Milliseconds(250));
  EXPECT_GT(DeadlineAfter(arrival, kMostUint64),
            arrival + absl::Hours(1 << 20));
}

TEST(CheckQueueTakes, RefusesWhatItNeverHasRoomFor) {
  GemmPlan plan;
  plan.a_bytes = 60;
  plan.c_bytes = 40;
  EXPECT_TRUE(CheckQueueTakes(plan, 100).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(CheckQueueTakes(plan, 99)));
  EXPECT_TRUE(absl::IsResourceExhausted(CheckQueueTakes(plan, 0)));
}

}  // namespace
}  // namespace qgemm
