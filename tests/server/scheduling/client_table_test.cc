// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/client_table.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

ScheduledRequest RequestOf(int64_t rows, int64_t bytes) {
  ScheduledRequest scheduled;
  scheduled.request = std::make_unique<AdmittedRequest>();
  scheduled.request->m = rows;
  scheduled.request->a = StagingLease(nullptr, bytes, nullptr);
  return scheduled;
}

TEST(ClientTableTest, CountsWhatWaitsByClient) {
  ClientTable table(10);
  const ScheduledRequest large = RequestOf(20, 200);
  const ScheduledRequest small = RequestOf(1, 10);
  ClientState* const a = table.Get("a");
  table.Add(a, large);
  table.Add(a, small);
  table.Add(table.Get("b"), small);
  table.Remove(a, large);
  EXPECT_EQ(table.Find("a")->requests, 1);
  EXPECT_EQ(table.Find("a")->rows, 1);
  EXPECT_EQ(table.Find("a")->bytes, 10);
  EXPECT_EQ(table.Find("b")->requests, 1);
  EXPECT_EQ(table.Find("c"), nullptr);
}

TEST(ClientTableTest, KeepsIdleClientsUpToItsBound) {
  ClientTable table(10);
  const ScheduledRequest request = RequestOf(1, 1);
  ClientState* const busy = table.Get("busy");
  table.Add(busy, request);
  for (int i = 0; i < 10; ++i) table.Get(absl::StrCat(i));
  EXPECT_NE(table.Find("0"), nullptr);
  table.Get("one more");
  EXPECT_EQ(table.Find("0"), nullptr);
  EXPECT_EQ(table.Find("busy"), busy);
  EXPECT_NE(table.Find("one more"), nullptr);
}

TEST(ClientTableTest, ForgottenClientLeavesItsLayer) {
  ClientTable table(1);
  SequenceLayer layer;
  layer.clients = 1;
  table.Get("a")->last_layer = &layer;
  table.Get("b");
  EXPECT_EQ(layer.clients, 0);
}

}  // namespace
}  // namespace qgemm
