// SPDX-License-Identifier: Apache-2.0
//
// The share of one client, and the count of an answer's slices.

#include "server/rpc/operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<const Peer> MakePeer(const std::string& identity) {
  auto peer = std::make_shared<Peer>();
  peer->identity = identity;
  peer->usage = std::make_shared<ClientUsage>();
  return peer;
}

TEST(StagingChargeTest, OneClientsShareLeavesTheOthersTheirs) {
  const auto greedy = MakePeer("uid 7");
  const auto charge = StagingCharge::Take(greedy, 600, 1000);
  ASSERT_TRUE(charge.ok());
  const absl::Status refused = StagingCharge::Take(greedy, 401, 1000).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("uid 7"), HasSubstr("600"), HasSubstr("401"),
                    HasSubstr("1000 (--max_client_staging_bytes)")));
  EXPECT_GT(RetryDelayOf(refused), absl::ZeroDuration());
  EXPECT_TRUE(StagingCharge::Take(greedy, 400, 1000).ok());
  EXPECT_TRUE(StagingCharge::Take(MakePeer("uid 8"), 1000, 1000).ok());
}

TEST(StagingChargeTest, WhatIsAloneTooMuchIsNotToBeRetried) {
  const absl::Status refused =
      StagingCharge::Take(MakePeer("uid 7"), 1001, 1000).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(RetryDelayOf(refused), std::nullopt);
}

TEST(StagingChargeTest, GivesBackWhatItShrinksByAndTheRestAtItsEnd) {
  const auto peer = MakePeer("uid 7");
  const std::atomic<int64_t>& held = peer->usage->staged_bytes;
  {
    auto charge = StagingCharge::Take(peer, 600, 1000);
    ASSERT_TRUE(charge.ok());
    EXPECT_EQ(held, 600);
    charge->Shrink(200);
    charge->Shrink(300);
    EXPECT_EQ(held, 200);
    StagingCharge moved = *std::move(charge);
    EXPECT_EQ(held, 200);
    moved = *StagingCharge::Take(peer, 50, 1000);
    EXPECT_EQ(held, 50);
  }
  EXPECT_EQ(held, 0);
}

TEST(SentOperandTest, LivesAndCountsUntilTheLastSliceIsSent) {
  LiveCalls live_calls;
  const auto peer = MakePeer("uid 7");
  auto sent = std::make_shared<SentOperand>(
      &live_calls, StagingLease(), *StagingCharge::Take(peer, 100, 100));
  const std::weak_ptr<SentOperand> watched = sent;
  absl::AnyInvocable<void()> first = SentOperand::Release(sent);
  absl::AnyInvocable<void()> second = SentOperand::Release(std::move(sent));
  EXPECT_EQ(watched.lock()->slices_sent(), 0);
  first();
  EXPECT_EQ(watched.lock()->slices_sent(), 1);
  EXPECT_EQ(peer->usage->staged_bytes, 100);
  second();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(peer->usage->staged_bytes, 0);
  live_calls.WaitUntilNone();
}

}  // namespace
}  // namespace qgemm
