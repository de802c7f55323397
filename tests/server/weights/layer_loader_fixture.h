// SPDX-License-Identifier: Apache-2.0
//
// Layers of a disk in memory, a store that has restored them, and a backend
// for those that bring and check them.

#ifndef QGEMM_TESTS_SERVER_WEIGHTS_LAYER_LOADER_FIXTURE_H_
#define QGEMM_TESTS_SERVER_WEIGHTS_LAYER_LOADER_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "kernels/formats/weights_decoder.h"
#include "server/weights/layer_loader.h"
#include "server/weights/owners.h"
#include "tests/server/storage/fault_files.h"
#include "tests/server/storage/random_layer.h"
#include "tests/support/fake_async_backend.h"

namespace qgemm {

inline constexpr int kLayers = 5;

inline constexpr absl::Duration kForever = absl::InfiniteDuration();

inline std::string NameOf(int i) { return absl::StrCat("layer", i); }

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

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_WEIGHTS_LAYER_LOADER_FIXTURE_H_
