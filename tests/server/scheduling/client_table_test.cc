// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/client_table.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

GemmRequest RequestOf(int64_t rows, int64_t bytes) {
  GemmRequest request;
  request.m = rows;
  request.a = StagingLease(nullptr, bytes, nullptr);
  return request;
}

TEST(ClientTableTest, CountsWhatWaitsByClient) {
  ClientTable table(10);
  const GemmRequest large = RequestOf(20, 200);
  const GemmRequest small = RequestOf(1, 10);
  QueueClient* const a = table.Get("a");
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
  const GemmRequest request = RequestOf(1, 1);
  QueueClient* const busy = table.Get("busy");
  table.Add(busy, request);
  for (int i = 0; i < 10; ++i) table.Get(absl::StrCat(i));
  EXPECT_NE(table.Find("0"), nullptr);
  table.Get("one more");
  EXPECT_EQ(table.Find("0"), nullptr);
  EXPECT_EQ(table.Find("busy"), busy);
  EXPECT_NE(table.Find("one more"), nullptr);
}

TEST(ClientTableTest, ForgottenClientLeavesItsPlace) {
  ClientTable table(1);
  LayerPlace place;
  place.clients = 1;
  table.Get("a")->place = &place;
  table.Get("b");
  EXPECT_EQ(place.clients, 0);
}

}  // namespace
}  // namespace qgemm
