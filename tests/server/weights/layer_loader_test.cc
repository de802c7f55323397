// SPDX-License-Identifier: Apache-2.0
//
// Layers from a disk in memory into a backend: the order, the room, and files
// that are damaged.

#include "server/weights/layer_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

namespace qgemm {
namespace {

constexpr int kLayers = 5;

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
  std::unique_ptr<WeightStore> NewStore(int64_t layers = 1000,
                                        ServerMetrics* metrics = nullptr) {
    const int64_t layer_bytes =
        backend_.EstimateResidentBytes(ShapeOf(layers_[0].spec)) +
        kLayerRecordBytes;
    auto store = std::make_unique<WeightStore>(
        StoreLimits{layers * layer_bytes + kLayers * kNameRecordBytes +
                    DecoderBytes(layers_[0].spec)},
        metrics,
        StateTier{directory_.get(), &clock_, {}, {absl::ZeroDuration()}});
    CHECK_OK(store->Restore());
    return store;
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

TEST_F(LayerLoaderTest, BringsAllLayersAfterAStart) {
  const auto store = NewStore();
  EXPECT_EQ(Resident(*store), 0);
  LayerLoader loader(&backend_, store.get(), {2, {NameOf(3)}});
  loader.Start();
  for (int i = 0; i < kLayers; ++i) {
    const auto layer = loader.Await(layers_[i].id());
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
      const auto brought = loader.Await(layer.id());
      ASSERT_TRUE(brought.ok()) << brought.status();
      EXPECT_LE(Resident(*store), 2);
    }
  }
}

TEST_F(LayerLoaderTest, WhatIsInUseDoesNotLeave) {
  const auto store = NewStore(2);
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  std::vector<std::shared_ptr<const ResidentWeights>> used;
  for (int i = 0; i < 2; ++i) {
    used.push_back((*loader.Await(layers_[i].id()))->resident);
  }
  EXPECT_TRUE(
      absl::IsResourceExhausted(loader.Await(layers_[2].id()).status()));
  used.pop_back();
  EXPECT_TRUE(loader.Await(layers_[2].id()).ok());
  EXPECT_NE((*store->Find(kAnybody, NameOf(0)))->resident, nullptr);
  EXPECT_EQ((*store->Find(kAnybody, NameOf(1)))->resident, nullptr);
}

TEST_F(LayerLoaderTest, ADamagedLayerLosesItsNames) {
  const std::string id = layers_[1].id();
  const auto store = NewStore();
  files_.Bytes(
      absl::StrCat("layers/", id, ".qgw"))[kWeightsFileHeaderBytes + 9] ^= 1;
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  EXPECT_FALSE(loader.Await(id).ok());
  EXPECT_TRUE(absl::IsNotFound(store->Find(kAnybody, NameOf(1)).status()));
  EXPECT_FALSE(directory_->Has(id));
  EXPECT_TRUE(loader.Await(layers_[0].id()).ok());
}

TEST_F(LayerLoaderTest, ALayerThatWasUnloadedIsNotBrought) {
  const auto store = NewStore();
  ASSERT_TRUE(store->Unload(kAnybody, NameOf(2)).ok());
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  EXPECT_TRUE(absl::IsNotFound(loader.Await(layers_[2].id()).status()));
}

TEST_F(LayerLoaderTest, ABackendThatFailsIsTold) {
  const auto store = NewStore();
  backend_.FailBuilders(1000, absl::UnavailableError("lost"));
  LayerLoader loader(&backend_, store.get(), {1, {}});
  loader.Start();
  EXPECT_TRUE(absl::IsUnavailable(loader.Await(layers_[0].id()).status()));
  EXPECT_TRUE(store->Find(kAnybody, NameOf(0)).ok());
  EXPECT_TRUE(directory_->Has(layers_[0].id()));
}

}  // namespace
}  // namespace qgemm
