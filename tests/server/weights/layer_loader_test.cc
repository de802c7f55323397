// SPDX-License-Identifier: Apache-2.0
//
// Layers from a disk in memory into a backend: the order, the room, and files
// that are damaged.

#include "server/weights/layer_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/server/weights/layer_loader_fixture.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

TEST_F(LayerLoaderTest, BringsAllLayersAfterAStart) {
  const auto store = NewStore();
  EXPECT_EQ(Resident(*store), 0);
  LayerLoader loader(&backend_, store.get(), {2, {NameOf(3)}});
  loader.Start();
  for (int i = 0; i < kLayers; ++i) {
    const auto layer = loader.Await(layers_[i].id(), kForever);
    ASSERT_TRUE(layer.ok()) << layer.status();
    EXPECT_EQ((*layer)->id, layers_[i].id());
    EXPECT_NE((*layer)->resident, nullptr);
  }
  EXPECT_EQ(Resident(*store), kLayers);
  EXPECT_EQ(loader.loading().all, 0);
  EXPECT_EQ(loader.loading().first, 0);
}

TEST_F(LayerLoaderTest, LeavesOnTheDiskWhatHasNoRoomUntilSomebodyAsks) {
  const auto store = NewStore(2);
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  for (int round = 0; round < 3; ++round) {
    for (const RandomLayer& layer : layers_) {
      const auto brought = loader.Await(layer.id(), kForever);
      ASSERT_TRUE(brought.ok()) << brought.status();
      EXPECT_LE(Resident(*store), 2);
    }
  }
}

// A layer that is being fetched.
struct Fetched {
  Fetched(LayerLoader* loader, const std::string& id)
      : ticket(loader->Fetch(id, [this](LayerLoader::Result result) {
          promise.set_value(std::move(result));
        })) {}

  bool is_ready() const {
    return result.wait_for(std::chrono::seconds(0)) ==
           std::future_status::ready;
  }

  std::promise<LayerLoader::Result> promise;
  std::future<LayerLoader::Result> result = promise.get_future();
  LayerLoader::Ticket ticket;
};

TEST_F(LayerLoaderTest, WaitsForTheLastUserOfALayer) {
  const auto store = NewStore(2);
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  auto used = Use(2, store.get(), &loader);
  Fetched fetched(&loader, layers_[2].id());
  // The oldest has left the store for it, and its user has it still.
  while ((*store->Find(kAnybody, NameOf(0)))->resident != nullptr) {
    std::this_thread::yield();
  }
  EXPECT_NE((*store->Find(kAnybody, NameOf(1)))->resident, nullptr);
  EXPECT_FALSE(fetched.is_ready());
  EXPECT_EQ(used[0].use_count(), 1);
  used[0] = nullptr;
  ASSERT_TRUE(fetched.result.get().ok());
  EXPECT_NE((*store->Find(kAnybody, NameOf(1)))->resident, nullptr);
}

TEST_F(LayerLoaderTest, ALayerThatIsStillUsedComesBackWithoutItsFile) {
  const auto store = NewStore(2);
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  auto used = Use(2, store.get(), &loader);
  Fetched gone(&loader, layers_[2].id());
  while ((*store->Find(kAnybody, NameOf(0)))->resident != nullptr) {
    std::this_thread::yield();
  }
  Fetched again(&loader, layers_[0].id());
  EXPECT_FALSE(again.is_ready());
  loader.Leave(layers_[2].id(), gone.ticket);
  const auto back = again.result.get();
  ASSERT_TRUE(back.ok());
  EXPECT_EQ((*back)->resident, used[0]);
  EXPECT_FALSE(gone.is_ready());
}

TEST_F(LayerLoaderTest, AProgramThatIsFasterKeepsALayerThatLeaves) {
  const auto store = NewStore(2);
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  auto used = Use(2, store.get(), &loader);
  std::shared_ptr<const Weights> record = *store->Find(kAnybody, NameOf(0));
  Fetched fetched(&loader, layers_[2].id());
  while ((*store->Find(kAnybody, NameOf(0)))->resident != nullptr) {
    std::this_thread::yield();
  }
  const auto held = store->Hold(*record);
  record = nullptr;
  used.clear();
  // The other one leaves in its place.
  ASSERT_TRUE(fetched.result.get().ok());
  EXPECT_EQ((*store->Find(kAnybody, NameOf(1)))->resident, nullptr);
}

TEST_F(LayerLoaderTest, ALayerThatIsUnloadedWaitsNoMore) {
  const auto store = NewStore(1);
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  const auto used = Use(1, store.get(), &loader);
  Fetched fetched(&loader, layers_[1].id());
  while ((*store->Find(kAnybody, NameOf(0)))->resident != nullptr) {
    std::this_thread::yield();
  }
  ASSERT_TRUE(store->Unload(kAnybody, NameOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(fetched.result.get().status()));
}

TEST(RoomQueueTest, OneHoldsOthersBackForATime) {
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  RoomQueue queue;
  RoomQueue::Place first(&queue);
  RoomQueue::Place second(&queue);
  RoomQueue::Place third(&queue);
  EXPECT_FALSE(second.HasTurn(now));
  EXPECT_TRUE(first.HasTurn(now));
  EXPECT_FALSE(second.HasTurn(now + kTurnPatience - absl::Nanoseconds(1)));
  EXPECT_TRUE(second.HasTurn(now + kTurnPatience));
  EXPECT_FALSE(third.HasTurn(now + kTurnPatience));
  EXPECT_TRUE(first.HasTurn(now + kTurnPatience));
}

TEST_F(LayerLoaderTest, WaitsUntilALayerWasLeftAloneForLongEnough) {
  FakeClock clock;
  const auto store = NewStore(1, nullptr, &clock, absl::Seconds(1));
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  ASSERT_TRUE(loader.Await(layers_[0].id(), kForever).ok());
  ASSERT_TRUE(store->FindToUse(kAnybody, NameOf(0)).ok());
  Fetched fetched(&loader, layers_[1].id());
  loader.Bring(layers_[1].id());  // joins it, and does not end it
  EXPECT_NE((*store->Find(kAnybody, NameOf(0)))->resident, nullptr);
  EXPECT_FALSE(fetched.is_ready());
  clock.Advance(absl::Seconds(1));
  store->RingRoom();
  EXPECT_TRUE(fetched.result.get().ok());
  EXPECT_EQ((*store->Find(kAnybody, NameOf(0)))->resident, nullptr);
}

// None of them waits: a test that does fails by its time limit.
TEST_F(LayerLoaderTest, RefusesWhatNeverHasRoom) {
  const auto store = NewStore(2);
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  const auto refused = [&] {
    const absl::Status status =
        loader.Await(layers_[2].id(), kForever).status();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("--weights_budget_bytes"));
    return absl::IsResourceExhausted(status);
  };
  const std::vector<std::string> names = {NameOf(0), NameOf(1)};
  std::vector<std::shared_ptr<const ResidentWeights>> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(store->Hold(**loader.Await(layers_[i].id(), kForever)));
  }
  EXPECT_TRUE(refused());
  ASSERT_TRUE(store->Pin(kAnybody, names).ok());
  held.clear();
  EXPECT_TRUE(refused());
  ASSERT_TRUE(store->Touch(kAnybody, names, absl::Hours(1)).ok());
  ASSERT_TRUE(store->Unpin(kAnybody, names).ok());
  EXPECT_TRUE(refused());
  const auto narrow = NewStore(0);
  LayerLoader none(&backend_, narrow.get(), {1, {}});
  none.Start();
  EXPECT_TRUE(absl::IsResourceExhausted(
      none.Await(layers_[0].id(), kForever).status()));
}

TEST_F(LayerLoaderTest, AStopEndsTheWaitForRoom) {
  const auto store = NewStore(1);
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  const auto used = (*loader.Await(layers_[0].id(), kForever))->resident;
  Fetched first(&loader, layers_[1].id());
  Fetched second(&loader, layers_[2].id());
  while ((*store->Find(kAnybody, NameOf(0)))->resident != nullptr) {
    std::this_thread::yield();
  }
  loader.Stop();
  EXPECT_TRUE(absl::IsUnavailable(first.result.get().status()));
  EXPECT_TRUE(absl::IsUnavailable(second.result.get().status()));
}

// Users hold what they got for a moment, in all threads at once, and there is
// room for two layers.
TEST_F(LayerLoaderTest, EveryUserGetsItsLayer) {
  constexpr int kUsers = 4;
  constexpr int kRounds = 200;
  const auto store = NewStore(2);
  LayerLoader loader(&backend_, store.get(), {3, {}});
  loader.Start();
  const auto use = [&](uint64_t seed) {
    RandomGenerator random(seed);
    for (int round = 0; round < kRounds; ++round) {
      const auto i = RandomInt(0, kLayers - 1, &random);
      auto layer = store->FindToUse(kAnybody, NameOf(static_cast<int>(i)));
      ASSERT_TRUE(layer.ok());
      if ((*layer)->resident == nullptr) {
        layer = loader.Await(layers_[i].id(), kForever);
        ASSERT_TRUE(layer.ok()) << layer.status();
      }
      ASSERT_EQ((*layer)->id, layers_[i].id());
      ASSERT_NE((*layer)->resident, nullptr);
      std::this_thread::yield();
    }
  };
  std::vector<std::thread> users;
  for (int i = 0; i < kUsers; ++i) users.emplace_back(use, FreshSeed());
  for (std::thread& user : users) user.join();
  loader.Stop();
  EXPECT_LE(store->reserved_bytes(), store->budget_bytes());
}

TEST_F(LayerLoaderTest, ADamagedLayerLosesItsNames) {
  const std::string id = layers_[1].id();
  const auto store = NewStore();
  files_.Bytes(
      absl::StrCat("layers/", id, ".qgw"))[kWeightsFileHeaderBytes + 9] ^= 1;
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  EXPECT_FALSE(loader.Await(id, kForever).ok());
  EXPECT_TRUE(absl::IsNotFound(store->Find(kAnybody, NameOf(1)).status()));
  EXPECT_FALSE(directory_->Has(id));
  EXPECT_TRUE(loader.Await(layers_[0].id(), kForever).ok());
}

TEST_F(LayerLoaderTest, ALayerThatWasUnloadedIsNotBrought) {
  const auto store = NewStore();
  ASSERT_TRUE(store->Unload(kAnybody, NameOf(2)).ok());
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  EXPECT_TRUE(
      absl::IsNotFound(loader.Await(layers_[2].id(), kForever).status()));
}

TEST_F(LayerLoaderTest, ABackendThatFailsIsTold) {
  const auto store = NewStore();
  backend_.FailBuilders(1000, absl::UnavailableError("lost"));
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  EXPECT_TRUE(
      absl::IsUnavailable(loader.Await(layers_[0].id(), kForever).status()));
  EXPECT_TRUE(store->Find(kAnybody, NameOf(0)).ok());
  EXPECT_TRUE(directory_->Has(layers_[0].id()));
}

}  // namespace
}  // namespace qgemm
