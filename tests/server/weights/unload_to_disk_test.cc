// SPDX-License-Identifier: Apache-2.0
//
// Memory that clients give back while their layers stay on the disk: whose
// word counts, and what keeps a layer in memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "kernels/formats/weights_decoder.h"
#include "server/weights/layer_loader.h"
#include "server/weights/weight_store.h"
#include "tests/server/storage/fault_files.h"
#include "tests/server/storage/random_layer.h"
#include "tests/support/fake_async_backend.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

Principal ClientOf(const std::string& id, std::vector<std::string> names) {
  Principal client;
  client.client_id = id;
  client.names = std::move(names);
  return client;
}

// Layer 0 is a's alone, layer 1 is a's and b's; c reads a's names.
class UnloadToDiskTest : public testing::Test {
 protected:
  UnloadToDiskTest() {
    auto opened = StateDirectory::Open(&files_, {});
    CHECK_OK(opened.status());
    directory_ = *std::move(opened);
    for (int i = 0; i < 2; ++i) {
      layers_.push_back(MakeRandomLayer(8, 32, &random_));
      holds_.push_back(*KeepLayer(layers_[i], directory_.get(), &random_));
    }
    Bind("a/own", "a", 0);
    Bind("a/both", "a", 1);
    Bind("b/both", "b", 1);
    store_ = std::make_unique<WeightStore>(
        StoreLimits(), nullptr,
        StateTier{directory_.get(), &clock_, {}, {absl::Hours(1)}});
    CHECK_OK(store_->Restore());
    loader_ = std::make_unique<LayerLoader>(&backend_, store_.get(),
                                            LayerLoaderOptions());
    loader_->Start();
    for (const RandomLayer& layer : layers_) Bring(layer.id());
  }

  void Bind(const std::string& name, const std::string& owner, int layer) {
    CHECK_OK(directory_->Append(
        {{NameChange::Kind::kBind, name, owner, layers_[layer].id(), 0}}));
  }
  void Bring(const std::string& id) {
    CHECK_OK(loader_->Await(id, absl::InfiniteDuration()).status());
    CHECK_OK(store_->FindToUse(kAnybody, id).status());
  }
  std::shared_ptr<const ResidentWeights> Memory(int layer) {
    return (*store_->Find(kAnybody, layers_[layer].id()))->resident;
  }
  absl::StatusCode Unload(const Principal* caller, const std::string& name,
                          const std::string& if_match = "") {
    return store_->UnloadToDisk(caller, name, if_match).code();
  }

  const Principal a_ = ClientOf("a", {"a/"});
  const Principal b_ = ClientOf("b", {"b/"});
  const Principal c_ = [] {
    Principal client = ClientOf("c", {"c/"});
    client.read = {"a/"};
    return client;
  }();

  RandomGenerator random_{FreshSeed()};
  FaultFiles files_{&random_};
  SteadyClock clock_;
  FakeAsyncBackend backend_;
  std::unique_ptr<StateDirectory> directory_;
  std::vector<RandomLayer> layers_;
  std::vector<StateDirectory::FileHold> holds_;
  std::unique_ptr<WeightStore> store_;
  std::unique_ptr<LayerLoader> loader_;
};

TEST_F(UnloadToDiskTest, TheMemoryGoesAndARequestBringsItBack) {
  const int64_t bytes = store_->reserved_bytes();
  EXPECT_EQ(Unload(&a_, "a/own"), absl::StatusCode::kOk);
  EXPECT_EQ(Memory(0), nullptr);
  EXPECT_LT(store_->reserved_bytes(), bytes);
  EXPECT_EQ(Unload(&a_, "a/own"), absl::StatusCode::kOk);
  EXPECT_EQ((*store_->Find(&a_, "a/own"))->id, layers_[0].id());
  EXPECT_TRUE(directory_->Has(layers_[0].id()));
  Bring(layers_[0].id());
  EXPECT_EQ(store_->reserved_bytes(), bytes);
}

TEST_F(UnloadToDiskTest, OnlyWhoMayUnloadMay) {
  EXPECT_EQ(Unload(&b_, "a/own"), absl::StatusCode::kNotFound);
  EXPECT_EQ(Unload(&b_, layers_[0].id()), absl::StatusCode::kNotFound);
  EXPECT_EQ(Unload(&c_, "a/own"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Unload(&c_, layers_[0].id()), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Unload(&a_, "a/own", layers_[1].id()),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Unload(&a_, "a/own", "x"), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(Memory(0), nullptr);
  EXPECT_EQ(Unload(&a_, layers_[0].id(), layers_[0].id()),
            absl::StatusCode::kOk);
  EXPECT_EQ(Memory(0), nullptr);
}

TEST_F(UnloadToDiskTest, WhatAnotherHoldsStaysForAllButAnAdministrator) {
  EXPECT_EQ(Unload(&a_, "a/both"), absl::StatusCode::kOk);
  EXPECT_NE(Memory(1), nullptr);
  EXPECT_EQ(Unload(kAnybody, "a/both"), absl::StatusCode::kOk);
  EXPECT_EQ(Memory(1), nullptr);
}

TEST_F(UnloadToDiskTest, OwnPinsAndLeasesEndAndOthersPinsDoNot) {
  const std::vector<std::string> own = {"a/own"};
  ASSERT_TRUE(store_->Pin(&a_, own).ok());
  ASSERT_TRUE(store_->Touch(&a_, own, absl::Hours(1)).ok());
  EXPECT_EQ(Unload(&a_, "a/own"), absl::StatusCode::kOk);
  EXPECT_EQ(Memory(0), nullptr);
  Bring(layers_[0].id());
  ASSERT_TRUE(store_->Pin(kAnybody, own).ok());
  EXPECT_EQ(Unload(&a_, "a/own"), absl::StatusCode::kOk);
  EXPECT_NE(Memory(0), nullptr);
}

TEST_F(UnloadToDiskTest, AProgramKeepsALayerAndARequestItsMemory) {
  auto held = store_->Hold(**store_->Find(kAnybody, "a/own"));
  EXPECT_EQ(Unload(&a_, "a/own"), absl::StatusCode::kOk);
  EXPECT_NE(Memory(0), nullptr);
  held = nullptr;
  const auto used = Memory(0);
  const int64_t bytes = store_->reserved_bytes();
  EXPECT_EQ(Unload(&a_, "a/own"), absl::StatusCode::kOk);
  EXPECT_EQ(Memory(0), nullptr);
  EXPECT_EQ(store_->reserved_bytes(), bytes);
  EXPECT_EQ(used.use_count(), 1);
}

TEST(UnloadToDisk, AStoreWithoutADiskRefuses) {
  WeightStore store{StoreLimits()};
  const absl::Status status = store.UnloadToDisk(kAnybody, "a");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--state_dir"));
}

}  // namespace
}  // namespace qgemm
