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
#include "base/clock.h"
#include "kernels/formats/weights_decoder.h"
#include "server/weights/layer_scrubber.h"
#include "server/weights/owners.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/storage/fault_files.h"
#include "tests/server/storage/random_layer.h"
#include "tests/support/fake_async_backend.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr int kLayers = 5;

constexpr absl::Duration kForever = absl::InfiniteDuration();

std::string NameOf(int i) { return absl::StrCat("layer", i); }

class LayerLoaderTest : public testing::Test {
 protected:
  LayerLoaderTest() {
    auto opened = StateDirectory::Open(&files_, {});
    CHECK_OK(opened.status());
    directory_ = *std::move(opened);
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back(MakeRandomLayer(8, 32, &random_));
      const RandomLayer& layer = layers_.back();
      const auto hold = KeepLayer(layer, directory_.get(), &random_);
      CHECK_OK(hold.status());
      CHECK_OK(directory_->Append(
          {{NameChange::Kind::kBind, NameOf(i), "", layer.id(), 0}}));
    }
  }

  // A store that has restored the directory, with room for so many layers.
  std::unique_ptr<WeightStore> NewStore(
      int64_t layers = 1000, ServerMetrics* metrics = nullptr,
      const Clock* clock = nullptr,
      absl::Duration min_residency = absl::ZeroDuration()) {
    const int64_t layer_bytes =
        backend_.EstimateResidentBytes(ShapeOf(layers_[0].spec)) +
        kLayerRecordBytes;
    auto store = std::make_unique<WeightStore>(
        StoreLimits{layers * layer_bytes + kLayers * kNameRecordBytes +
                    DecoderBytes(layers_[0].spec)},
        metrics,
        StateTier{directory_.get(),
                  clock == nullptr ? &clock_ : clock,
                  {},
                  {min_residency}});
    CHECK_OK(store->Restore());
    return store;
  }

  // The memory of the first layers, of which the first was used longest ago.
  std::vector<std::shared_ptr<const ResidentWeights>> Use(int layers,
                                                          WeightStore* store,
                                                          LayerLoader* loader) {
    std::vector<std::shared_ptr<const ResidentWeights>> used;
    for (int i = 0; i < layers; ++i) {
      CHECK_OK(loader->Await(layers_[i].id(), kForever).status());
      used.push_back((*store->FindToUse(kAnybody, NameOf(i)))->resident);
    }
    return used;
  }

  static int Resident(const WeightStore& store) {
    int resident = 0;
    for (const auto& layer : store.layers()) {
      resident += layer->resident == nullptr ? 0 : 1;
    }
    return resident;
  }

  RandomGenerator random_{FreshSeed()};
  FaultFiles files_{&random_};
  SteadyClock clock_;
  FakeAsyncBackend backend_;
  std::unique_ptr<StateDirectory> directory_;
  std::vector<RandomLayer> layers_;
};

// A file that is as its checksums say, and not as its id does.
void Forge(const RandomLayer& layer, FaultFiles* files) {
  std::string payload = layer.payload;
  payload[0] ^= 1;
  auto file = files->OpenToWrite("forged");
  CHECK_OK(file.status());
  auto writer = WeightsFileWriter::Create(*std::move(file), layer.spec);
  CHECK_OK(writer.status());
  CHECK_OK(writer->Append(payload));
  CHECK_OK(writer->Finish(layer.digest));
  files->Bytes(absl::StrCat("layers/", layer.id(), ".qgw")) =
      files->Bytes("forged");
}

TEST_F(LayerLoaderTest, TheScrubberFindsWhatTheLoaderCannot) {
  Forge(layers_[2], &files_);
  ServerMetrics metrics;
  const auto store = NewStore(1000, &metrics);
  LayerLoader loader(&backend_, store.get(), {});
  loader.Start();
  LayerScrubberOptions options;
  options.poll = absl::Milliseconds(1);
  LayerScrubber scrubber(store.get(), &loader, options);
  scrubber.Start();
  int64_t bytes = 0;
  for (const RandomLayer& layer : layers_) {
    bytes += static_cast<int64_t>(layer.payload.size());
  }
  while (MetricValue(metrics, "qgemm_state_verified_bytes_total") < bytes ||
         store->Find(kAnybody, NameOf(2)).ok()) {
    std::this_thread::yield();
  }
  scrubber.Stop();
  EXPECT_EQ(MetricValue(metrics, "qgemm_layer_loads_total{code=\"OK\"}"),
            kLayers);
  EXPECT_EQ(MetricValue(metrics, "qgemm_state_damaged_files_total"), 1);
  EXPECT_TRUE(files_.Has(absl::StrCat("damaged/", layers_[2].id(), ".qgw")));
  for (const int sound : {0, 1, 3, 4}) {
    EXPECT_TRUE(store->Find(kAnybody, NameOf(sound)).ok());
  }
}

TEST_F(LayerLoaderTest, TheScrubberStopsWithinALayer) {
  constexpr int64_t kPaced = int64_t{4} << 20;
  const RandomLayer large = MakeRandomLayer(1536, 2048, &random_);
  ASSERT_GT(large.payload.size(), kPaced);
  {
    const auto hold = KeepLayer(large, directory_.get(), &random_);
    ASSERT_TRUE(hold.ok());
    CHECK_OK(directory_->Append(
        {{NameChange::Kind::kBind, "large", "", large.id(), 0}}));
  }
  ServerMetrics metrics;
  const auto store = NewStore(100000, &metrics);
  LayerLoader loader(&backend_, store.get(), {});
  loader.Start();
  LayerScrubberOptions options;
  options.poll = absl::Milliseconds(1);
  options.bytes_per_second = 1;  // weeks
  LayerScrubber scrubber(store.get(), &loader, options);
  scrubber.Start();
  while (MetricValue(metrics, "qgemm_state_verified_bytes_total") < kPaced) {
    std::this_thread::yield();
  }
  scrubber.Stop();
  EXPECT_TRUE(store->Find(kAnybody, "large").ok());
}

TEST_F(LayerLoaderTest, TheScrubberKeepsNoMemory) {
  const RandomLayer large = MakeRandomLayer(1536, 2048, &random_);
  const auto hold = KeepLayer(large, directory_.get(), &random_);
  ASSERT_TRUE(hold.ok());
  CHECK_OK(directory_->Append(
      {{NameChange::Kind::kBind, "large", "", large.id(), 0}}));
  ServerMetrics metrics;
  const auto store = NewStore(100000, &metrics);
  LayerLoader loader(&backend_, store.get(), {});
  loader.Start();
  LayerScrubberOptions options;
  options.poll = absl::Milliseconds(1);
  options.bytes_per_second = 1;  // a pause of weeks within the large layer
  LayerScrubber scrubber(store.get(), &loader, options);
  scrubber.Start();
  while (MetricValue(metrics, "qgemm_state_verified_bytes_total") < int64_t{4}
                                                                        << 20) {
    std::this_thread::yield();
  }
  const int64_t before = store->reserved_bytes();
  ASSERT_TRUE(store->UnloadToDisk(kAnybody, NameOf(0)).ok());
  EXPECT_LT(store->reserved_bytes(), before);
}

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
