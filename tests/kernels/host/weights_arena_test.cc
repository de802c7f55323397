// SPDX-License-Identifier: Apache-2.0
//
// Chunks that come, go and are taken over.

#include "kernels/host/weights_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kChunkBytes = 1 << 20;

class HeapChunk final : public ArenaChunk {
 public:
  explicit HeapChunk(int64_t size_bytes) : bytes_(size_bytes) {}
  uint8_t* data() const override { return const_cast<uint8_t*>(bytes_.data()); }
  int64_t size_bytes() const override {
    return static_cast<int64_t>(bytes_.size());
  }
  int descriptor() const override { return 0; }
  void Discard(int64_t offset_bytes, int64_t size_bytes) override {
    std::fill_n(bytes_.begin() + offset_bytes, size_bytes, 0);
  }

 private:
  std::vector<uint8_t> bytes_;
};

class RecordingWatcher final : public ChunkWatcher {
 public:
  void ChunkMade(uint32_t chunk, int64_t /*size_bytes*/,
                 int /*descriptor*/) override {
    chunks.insert(chunk);
  }
  void ChunkDropped(uint32_t chunk) override { chunks.erase(chunk); }

  std::set<uint32_t> chunks;
};

class WeightsArenaTest : public ::testing::Test {
 protected:
  WeightsArenaTest() { arena_->Watch(&watcher_); }

  ArenaPlace Allocate(int64_t size_bytes) {
    auto place = arena_->Allocate(size_bytes);
    CHECK(place.ok()) << place.status();
    return *std::move(place);
  }
  static KeptLayer At(uint32_t chunk, int64_t offset, int64_t size) {
    KeptLayer layer;
    layer.chunk = chunk;
    layer.offset_bytes = offset;
    layer.size_bytes = size;
    return layer;
  }

  RecordingWatcher watcher_;
  const std::shared_ptr<WeightsArena> arena_ = WeightsArena::Create(
      kChunkBytes,
      [](int64_t size_bytes) -> absl::StatusOr<std::unique_ptr<ArenaChunk>> {
        if (size_bytes > 8 * kChunkBytes) {
          return absl::ResourceExhaustedError("too large");
        }
        return std::make_unique<HeapChunk>(size_bytes);
      });
};

TEST_F(WeightsArenaTest, LayersShareChunksWhichGoWithTheLast) {
  ArenaPlace first = Allocate(1000);
  ArenaPlace second = Allocate(1000);
  EXPECT_EQ(first.chunk(), second.chunk());
  EXPECT_NE(first.offset_bytes(), second.offset_bytes());
  EXPECT_THAT(watcher_.chunks, ElementsAre(first.chunk()));
  first = ArenaPlace();
  EXPECT_EQ(watcher_.chunks.size(), 1);
  second = ArenaPlace();
  EXPECT_THAT(watcher_.chunks, IsEmpty());
}

TEST_F(WeightsArenaTest, ALargeLayerHasAChunkOfItsOwn) {
  const ArenaPlace large = Allocate(3 * kChunkBytes);
  EXPECT_EQ(large.size_bytes(), 3 * kChunkBytes);
  const ArenaPlace small = Allocate(1000);
  EXPECT_NE(small.chunk(), large.chunk());
  EXPECT_EQ(arena_->Allocate(9 * kChunkBytes).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// 300 KiB: three a MiB.
TEST_F(WeightsArenaTest, LayersOfOneSizeFillTheirChunks) {
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 6; ++i) places.push_back(Allocate(300 << 10));
  EXPECT_EQ(watcher_.chunks.size(), 2);
}

TEST_F(WeightsArenaTest, AdoptedChunksHaveWhatIsTakenInThemAlone) {
  auto chunk = std::make_unique<HeapChunk>(kChunkBytes);
  uint8_t* const data = chunk->data();
  ASSERT_TRUE(arena_->Adopt(5, std::move(chunk)).ok());
  ASSERT_TRUE(arena_->Adopt(7, std::make_unique<HeapChunk>(kChunkBytes)).ok());
  EXPECT_EQ(arena_->Adopt(5, std::make_unique<HeapChunk>(kChunkBytes)).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(arena_->Adopt(9, std::make_unique<HeapChunk>(1000)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(arena_->adopted_bytes(), 2 * kChunkBytes);
  const ArenaPlace fresh = Allocate(100);
  EXPECT_EQ(fresh.chunk(), 8) << "no bytes of an adopted one";
  data[512] = 77;
  {
    const auto given_back = arena_->Take(At(5, 512, 256));
    ASSERT_TRUE(given_back.ok()) << given_back.status();
  }
  EXPECT_EQ(data[512], 77) << "another record may have them";
  const auto place = arena_->Take(At(5, 512, 256));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->data(), data + 512);
  EXPECT_FALSE(arena_->Take(At(5, 256, 512)).ok()) << "overlaps";
  EXPECT_FALSE(arena_->Take(At(6, 0, 256)).ok()) << "no such chunk";
  EXPECT_FALSE(arena_->Take(At(8, 4096, 256)).ok()) << "not adopted";
  arena_->EndAdoption();
  EXPECT_EQ(arena_->adopted_bytes(), kChunkBytes);
  EXPECT_FALSE(arena_->Take(At(5, 1024, 256)).ok());
  EXPECT_FALSE(
      arena_->Adopt(11, std::make_unique<HeapChunk>(kChunkBytes)).ok());
  EXPECT_EQ(Allocate(100).chunk(), 5) << "what is left of it serves new layers";
}

}  // namespace
}  // namespace qgemm
