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

TEST(ClientChargeTest, OneClientsShareLeavesTheOthersTheirs) {
  const auto greedy = MakePeer("uid 7");
  const auto charge = ClientCharge::Take(greedy, 600, StagingShare(1000));
  ASSERT_TRUE(charge.ok());
  const absl::Status refused =
      ClientCharge::Take(greedy, 401, StagingShare(1000)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("uid 7"), HasSubstr("600"), HasSubstr("401"),
                    HasSubstr("1000 (--max_client_staging_bytes)")));
  EXPECT_GT(RetryDelayOf(refused), absl::ZeroDuration());
  EXPECT_TRUE(ClientCharge::Take(greedy, 400, StagingShare(1000)).ok());
  EXPECT_TRUE(
      ClientCharge::Take(MakePeer("uid 8"), 1000, StagingShare(1000)).ok());
}

TEST(ClientChargeTest, WhatIsAloneTooMuchIsNotToBeRetried) {
  const absl::Status refused =
      ClientCharge::Take(MakePeer("uid 7"), 1001, StagingShare(1000)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(RetryDelayOf(refused), std::nullopt);
}

TEST(ClientChargeTest, GivesBackWhatItShrinksByAndTheRestAtItsEnd) {
  const auto peer = MakePeer("uid 7");
  const std::atomic<int64_t>& held = peer->usage->staged_bytes;
  {
    auto charge = ClientCharge::Take(peer, 600, StagingShare(1000));
    ASSERT_TRUE(charge.ok());
    EXPECT_EQ(held, 600);
    charge->Shrink(200);
    charge->Shrink(300);
    EXPECT_EQ(held, 200);
    ClientCharge moved = *std::move(charge);
    EXPECT_EQ(held, 200);
    moved = *ClientCharge::Take(peer, 50, StagingShare(1000));
    EXPECT_EQ(held, 50);
  }
  EXPECT_EQ(held, 0);
}

TEST(ClientChargeTest, SharesOfDifferentThingsAreApart) {
  const auto peer = MakePeer("uid 7");
  const auto operands = ClientCharge::Take(peer, 100, StagingShare(100));
  ASSERT_TRUE(operands.ok());
  const ClientShare lists = {&ClientUsage::listed_bytes, 10, "lists", "", ""};
  const auto list = ClientCharge::Take(peer, 10, lists);
  ASSERT_TRUE(list.ok());
  const absl::Status refused = ClientCharge::Take(peer, 1, lists).status();
  EXPECT_EQ(refused.message(),
            "requests and unread answers of uid 7 hold 10 bytes of lists, this "
            "one would add 1, and the limit of one client is 10; read answers, "
            "or try again later");
}

TEST(SentOperandTest, LivesAndCountsUntilTheLastSliceIsSent) {
  LiveCalls live_calls;
  const auto peer = MakePeer("uid 7");
  auto sent = std::make_shared<SentOperand>(
      &live_calls, StagingLease(),
      *ClientCharge::Take(peer, 100, StagingShare(100)));
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
