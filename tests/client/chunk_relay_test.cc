// SPDX-License-Identifier: Apache-2.0

#include "client/chunk_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Nobody is left behind before a test ends.
constexpr absl::Duration kFar = absl::Minutes(5);

ChunkRelay::Chunk ChunkAt(uint64_t offset) {
  auto chunk = std::make_shared<v1::LoadWeightsRequest>();
  chunk->mutable_chunk()->set_offset(offset);
  return chunk;
}

void FailIfBehind(size_t taker) { FAIL() << taker; }

// Takes until there is no more; the offsets.
std::vector<uint64_t> TakeAll(ChunkRelay* relay, size_t taker) {
  std::vector<uint64_t> offsets;
  while (const auto chunk = relay->Take(taker)) {
    offsets.push_back(chunk->chunk().offset());
  }
  return offsets;
}

TEST(ChunkRelayTest, EachTakerGetsEachChunkInOrder) {
  constexpr uint64_t kChunks = 1000;
  ChunkRelay relay(3, kFar, FailIfBehind);
  std::vector<std::vector<uint64_t>> taken(3);
  std::vector<std::thread> takers;
  for (size_t i = 0; i < taken.size(); ++i) {
    takers.emplace_back([&, i] { taken[i] = TakeAll(&relay, i); });
  }
  for (uint64_t i = 0; i < kChunks; ++i) EXPECT_TRUE(relay.Put(ChunkAt(i)));
  relay.Close(ChunkRelay::End::kWhole);
  for (std::thread& taker : takers) taker.join();
  for (size_t i = 0; i < taken.size(); ++i) {
    ASSERT_EQ(taken[i].size(), kChunks);
    for (uint64_t j = 0; j < kChunks; ++j) EXPECT_EQ(taken[i][j], j);
    EXPECT_TRUE(relay.IsWhole(i));
  }
}

TEST(ChunkRelayTest, WithoutTakersNothingIsPut) {
  ChunkRelay relay(2, kFar, FailIfBehind);
  relay.Leave(0);
  EXPECT_TRUE(relay.Put(ChunkAt(0)));
  relay.Leave(1);  // with a chunk that it did not take
  EXPECT_FALSE(relay.Put(ChunkAt(1)));
  EXPECT_FALSE(relay.IsWhole(0));
}

TEST(ChunkRelayTest, ABrokenEndIsNotWholeAndGivesNothingMore) {
  ChunkRelay relay(1, kFar, FailIfBehind);
  EXPECT_TRUE(relay.Put(ChunkAt(0)));
  relay.Close(ChunkRelay::End::kBroken);
  EXPECT_EQ(relay.Take(0), nullptr);
  EXPECT_FALSE(relay.IsWhole(0));
}

TEST(ChunkRelayTest, WhatWasPutIsTakenAfterTheEnd) {
  ChunkRelay relay(1, kFar, FailIfBehind);
  EXPECT_TRUE(relay.Put(ChunkAt(7)));
  relay.Close(ChunkRelay::End::kWhole);
  EXPECT_FALSE(relay.IsWhole(0));
  EXPECT_THAT(TakeAll(&relay, 0), ElementsAre(7));
  EXPECT_TRUE(relay.IsWhole(0));
}

// The second one takes nothing while the first waits for the next chunk.
TEST(ChunkRelayTest, ATakerThatOthersWaitForIsLeftBehind) {
  std::vector<size_t> behind;
  ChunkRelay relay(2, absl::ZeroDuration(),
                   [&behind](size_t taker) { behind.push_back(taker); });
  std::vector<uint64_t> taken;
  std::thread first([&] { taken = TakeAll(&relay, 0); });
  EXPECT_TRUE(relay.Put(ChunkAt(0)));
  EXPECT_TRUE(relay.Put(ChunkAt(1)));
  EXPECT_THAT(behind, ElementsAre(1));
  EXPECT_EQ(relay.Take(1), nullptr);
  relay.Leave(1);
  EXPECT_TRUE(relay.IsBehind(1));
  relay.Close(ChunkRelay::End::kWhole);
  first.join();
  EXPECT_THAT(taken, ElementsAre(0, 1));
  EXPECT_TRUE(relay.IsWhole(0));
  EXPECT_FALSE(relay.IsBehind(0));
  EXPECT_FALSE(relay.IsWhole(1));
}

// Others that still send their chunk do not wait, nor does a taker alone.
TEST(ChunkRelayTest, NobodyIsLeftBehindForNobodysSake) {
  std::vector<size_t> behind;
  ChunkRelay relay(2, absl::ZeroDuration(),
                   [&behind](size_t taker) { behind.push_back(taker); });
  EXPECT_TRUE(relay.Put(ChunkAt(0)));
  EXPECT_NE(relay.Take(0), nullptr);
  std::thread second([&relay] { EXPECT_NE(relay.Take(1), nullptr); });
  EXPECT_TRUE(relay.Put(ChunkAt(1)));
  second.join();
  relay.Leave(0);
  std::thread alone([&relay] { EXPECT_NE(relay.Take(1), nullptr); });
  EXPECT_TRUE(relay.Put(ChunkAt(2)));
  alone.join();
  EXPECT_THAT(behind, IsEmpty());
}

}  // namespace
}  // namespace qgemm
