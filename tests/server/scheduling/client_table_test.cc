// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/client_table.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

ScheduledRequest RequestOf(int64_t rows, int64_t bytes) {
  ScheduledRequest scheduled;
  scheduled.request = std::make_unique<AdmittedRequest>();
  scheduled.request->m = rows;
  scheduled.request->a = StagingLease(nullptr, bytes, nullptr);
  return scheduled;
}

ClientTableOptions Options() {
  ClientTableOptions options;
  options.identities.lead_rows = 64;
  options.identities.rider_lead_rows = 128;
  options.clients.lead_rows = 256;
  return options;
}

ClientTableOptions Keeping(size_t max_idle) {
  ClientTableOptions options;
  options.max_idle = max_idle;
  return options;
}

class ClientTableTest : public testing::Test {
 protected:
  ClientState* Waits(const std::string& identity, const std::string& client,
                     LaunchKind kind = LaunchKind::kMerged) {
    ClientState* const state = table_.Get(identity, client);
    table_.Add(state, request_, kind);
    return state;
  }

  // Identities that may be served next.
  std::vector<std::string> Next(bool chunk_may_launch = true) {
    std::vector<IdentityState*> identities;
    table_.BeginDecision(chunk_may_launch, &identities);
    std::vector<std::string> ids;
    for (const IdentityState* const identity : identities) {
      ids.push_back(identity->id);
    }
    return ids;
  }

  const ScheduledRequest request_ = RequestOf(1, 1);
  ClientTable table_{Options()};
};

TEST_F(ClientTableTest, CountsWhatWaitsByIdentity) {
  const ScheduledRequest large = RequestOf(20, 200);
  const ScheduledRequest small = RequestOf(1, 10);
  ClientState* const a = table_.Get("uid 1", "a");
  ClientState* const b = table_.Get("uid 1", "b");
  table_.Add(a, large, LaunchKind::kMerged);
  table_.Add(b, small, LaunchKind::kMerged);
  table_.Add(table_.Get("uid 2", "a"), small, LaunchKind::kMerged);
  table_.Remove(a, large, LaunchKind::kMerged);
  EXPECT_EQ(table_.Find("uid 1")->waiting.requests, 1);
  EXPECT_EQ(table_.Find("uid 1")->waiting.rows, 1);
  EXPECT_EQ(table_.Find("uid 1")->waiting.bytes, 10);
  EXPECT_EQ(table_.Find("uid 2")->waiting.requests, 1);
  EXPECT_EQ(table_.Find("uid 3"), nullptr);
}

TEST_F(ClientTableTest, AllThatAreServedAboutEquallyMayBeNext) {
  ClientState* const a = Waits("a", "");
  Waits("b", "");
  table_.Charge(a, {63, 63});
  EXPECT_THAT(Next(), UnorderedElementsAre("a", "b"));
  table_.Charge(a, {1, 1});
  EXPECT_THAT(Next(), ElementsAre("b"));
}

TEST_F(ClientTableTest, NewcomerGoesBeforeWhoWasServedAlone) {
  ClientState* const a = Waits("a", "");
  for (int i = 0; i < 10; ++i) {
    Next();
    table_.Charge(a, {64, 64});
  }
  Waits("b", "");
  EXPECT_THAT(Next(), ElementsAre("b"));
}

TEST_F(ClientTableTest, IdentityIsChargedForAllOfItsClients) {
  Waits("b", "");
  for (int i = 0; i < 4; ++i) {
    table_.Charge(Waits("a", absl::StrCat(i)), {16, 16});
  }
  EXPECT_THAT(Next(), ElementsAre("b"));
}

TEST_F(ClientTableTest, IdentityPaysForTheWholeTile) {
  ClientState* const a = Waits("a", "");
  Waits("b", "");
  for (int i = 0; i < 4; ++i) table_.Charge(a, {16, 1});
  EXPECT_THAT(Next(), ElementsAre("b"));
  EXPECT_EQ(a->served_rows, 4);
}

TEST_F(ClientTableTest, WhatWasLeftUnusedLongAgoIsForfeited) {
  ClientState* const a = Waits("a", "");
  ClientState* const b = table_.Get("b", "");
  for (int i = 0; i < 100; ++i) {
    Next();
    table_.Charge(a, {64, 64});
  }
  table_.Add(b, request_, LaunchKind::kMerged);
  table_.Charge(b, {64 + 64, 64 + 64});
  EXPECT_THAT(Next(), UnorderedElementsAre("a", "b"));
}

TEST_F(ClientTableTest, RidersAreNotPutFarAhead) {
  ClientState* const a = Waits("a", "");
  ClientState* const b = Waits("b", "");
  for (int i = 0; i < 100; ++i) table_.ChargeRider(a, 60);
  EXPECT_THAT(Next(), ElementsAre("b"));
  table_.Charge(b, {65, 65});
  EXPECT_THAT(Next(), UnorderedElementsAre("a", "b"));
}

TEST_F(ClientTableTest, WhoWaitsForAChunkAloneDoesNotHoldOthersUp) {
  Waits("large", "", LaunchKind::kChunk);
  table_.Charge(Waits("small", ""), {1000, 1000});
  EXPECT_THAT(Next(), ElementsAre("large"));
  EXPECT_THAT(Next(/*chunk_may_launch=*/false), ElementsAre("small"));
}

TEST_F(ClientTableTest, NobodyIsNextIfNobodyWaits) {
  table_.Remove(Waits("a", ""), request_, LaunchKind::kMerged);
  EXPECT_THAT(Next(), ElementsAre());
  EXPECT_EQ(table_.waiting_identities(), 0);
}

TEST_F(ClientTableTest, ClientThatLeadsGivesWayToTheLeastServedOfItsIdentity) {
  ClientState* const a = Waits("uid 1", "a");
  ClientState* const b = Waits("uid 1", "b");
  Waits("uid 2", "c");
  EXPECT_EQ(ClientTable::LeastServedBefore(*a), nullptr);
  table_.Charge(a, {256, 256});
  EXPECT_EQ(ClientTable::LeastServedBefore(*a), b);
  EXPECT_EQ(ClientTable::LeastServedBefore(*b), nullptr);
}

TEST(ClientTableMemoryTest, KeepsIdleClientsUpToItsBound) {
  ClientTable table(Keeping(10));
  const ScheduledRequest request = RequestOf(1, 1);
  ClientState* const busy = table.Get("busy", "");
  table.Add(busy, request, LaunchKind::kMerged);
  for (int i = 0; i < 10; ++i) table.Get(absl::StrCat(i), "");
  EXPECT_NE(table.Find("0"), nullptr);
  table.Get("one more", "");
  EXPECT_EQ(table.Find("0"), nullptr);
  EXPECT_EQ(table.Get("busy", ""), busy);
  EXPECT_NE(table.Find("one more"), nullptr);
}

TEST(ClientTableMemoryTest, WhoInventsClientsForgetsNoOthers) {
  ClientTable table(Keeping(16));
  SequenceLayer layer;
  layer.clients = 1;
  table.Get("victim", "")->last_layer = &layer;
  for (int i = 0; i < 1000; ++i) table.Get("attacker", absl::StrCat(i));
  EXPECT_NE(table.Find("victim"), nullptr);
  EXPECT_EQ(table.Get("victim", "")->last_layer, &layer);
  EXPECT_LE(table.Find("attacker")->clients.size(), 16u);
}

TEST(ClientTableMemoryTest, ForgottenClientLeavesItsLayer) {
  ClientTable table(Keeping(1));
  SequenceLayer layer;
  layer.clients = 1;
  table.Get("a", "")->last_layer = &layer;
  table.Get("b", "");
  EXPECT_EQ(layer.clients, 0);
}

}  // namespace
}  // namespace qgemm
