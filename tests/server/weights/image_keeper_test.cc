// SPDX-License-Identifier: Apache-2.0
//
// Layers of the CPU backend, their images on a real disk, and what becomes of
// both.

#include "server/weights/image_keeper.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "kernels/backends/backends.h"
#include "kernels/matrix/layer_images.h"
#include "server/keep/layout_key.h"
#include "server/storage/state_directory.h"
#include "server/weights/owners.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/storage/random_layer.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr int kLayers = 3;

std::string NameOf(int i) { return absl::StrCat("layer", i); }

class ImageKeeperTest : public testing::Test {
 protected:
  ImageKeeperTest() {
    BackendOptions options;
    options.cpu.threads = 1;
    auto backend = CreateBackend(options);
    CHECK_OK(backend.status());
    backend_ = *std::move(backend);
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back(MakeRandomLayer(300, 2100, &random_));
    }
    Open();
    for (int i = 0; i < kLayers; ++i) {
      const auto hold = KeepLayer(layers_[i], directory_.get(), &random_);
      CHECK_OK(hold.status());
      CHECK_OK(directory_->Append(
          {{NameChange::Kind::kBind, NameOf(i), "", layers_[i].id(), 0}}));
    }
    Open();
  }
  ~ImageKeeperTest() override { Close(); }

  void Close() {
    loader_ = nullptr;
    store_ = nullptr;
    directory_ = nullptr;
  }

  // As a server's start does; until every layer is in memory.
  void Open() {
    Close();
    const auto key = LayoutKeyOf(backend_.get());
    CHECK_OK(key.status());
    auto opened = StateDirectory::Open(files_.get(), {0, {1 << 30, *key}});
    CHECK_OK(opened.status());
    directory_ = *std::move(opened);
    store_ = std::make_unique<WeightStore>(
        StoreLimits(), &metrics_, StateTier{directory_.get(), &clock_, {}, {}});
    CHECK_OK(store_->Restore());
    loader_ = std::make_unique<LayerLoader>(backend_.get(), store_.get(),
                                            LayerLoaderOptions());
    loader_->Start();
    while (loader_->loading().all > 0) std::this_thread::yield();
  }

  // Writes images until so many layers have one.
  void KeepImages(int64_t count = kLayers) {
    ImageKeeper keeper(backend_.get(), store_.get(), loader_.get(), Quick());
    keeper.Start();
    while (directory_->images()->file_count() < count) {
      std::this_thread::yield();
    }
  }

  static ImageKeeperOptions Quick() {
    return {absl::Milliseconds(1), absl::Milliseconds(1)};
  }

  int64_t ImagesRead() const {
    return static_cast<int64_t>(
        MetricValue(metrics_, "qgemm_image_loads_total{code=\"OK\"}")
            .value_or(0));
  }

  uint64_t ChecksumOf(int i) {
    const auto layer = store_->Find(kAnybody, NameOf(i));
    CHECK_OK(layer.status());
    const auto image = backend_->images()->Describe(*(*layer)->resident);
    CHECK_OK(image.status());
    return image->checksum;
  }

  void FlipByteOfImage(int i) {
    const std::string path = folder_.File(ImageFiles::PathOf(layers_[i].id()));
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(kImageHeaderBytes + 12345);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(kImageHeaderBytes + 12345);
    file.put(byte);
  }

  RandomGenerator random_{FreshSeed()};
  const TemporaryFolder folder_;
  const std::unique_ptr<FileSystem> files_ = NewSystemFiles(folder_.path());
  SteadyClock clock_;
  ServerMetrics metrics_;
  std::vector<RandomLayer> layers_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<StateDirectory> directory_;
  std::unique_ptr<WeightStore> store_;
  std::unique_ptr<LayerLoader> loader_;
};

TEST_F(ImageKeeperTest, TheNextStartReadsImages) {
  std::vector<uint64_t> checksums;
  for (int i = 0; i < kLayers; ++i) checksums.push_back(ChecksumOf(i));
  EXPECT_EQ(ImagesRead(), 0);
  KeepImages();
  Open();
  EXPECT_EQ(ImagesRead(), kLayers);
  for (int i = 0; i < kLayers; ++i) EXPECT_EQ(ChecksumOf(i), checksums[i]);
  EXPECT_EQ(directory_->images()->file_count(), kLayers);
}

TEST_F(ImageKeeperTest, OneThatIsDamagedIsMadeAnew) {
  const uint64_t checksum = ChecksumOf(1);
  KeepImages();
  FlipByteOfImage(1);
  Open();
  EXPECT_EQ(ImagesRead(), kLayers - 1);
  EXPECT_EQ(
      MetricValue(metrics_, "qgemm_image_loads_total{code=\"DATA_LOSS\"}"), 1);
  EXPECT_EQ(ChecksumOf(1), checksum);
  EXPECT_EQ(directory_->images()->file_count(), kLayers - 1);
  KeepImages();
  Open();
  EXPECT_EQ(ImagesRead(), 2 * kLayers - 1);
}

TEST_F(ImageKeeperTest, AnImageGoesWithItsLayer) {
  KeepImages();
  ASSERT_TRUE(store_->Unload(kAnybody, NameOf(0)).ok());
  EXPECT_FALSE(directory_->images()->Has(layers_[0].id()));
  EXPECT_EQ(directory_->images()->file_count(), kLayers - 1);
}

TEST_F(ImageKeeperTest, ALayerThatWasSentToTheDiskComesBackFromIt) {
  KeepImages();
  const uint64_t checksum = ChecksumOf(2);
  ASSERT_TRUE(store_->UnloadToDisk(kAnybody, NameOf(2)).ok());
  ASSERT_TRUE(loader_->Await(layers_[2].id(), absl::InfiniteDuration()).ok());
  EXPECT_EQ(ImagesRead(), 1);
  EXPECT_EQ(ChecksumOf(2), checksum);
}

TEST_F(ImageKeeperTest, WaitsWhileUploadsWrite) {
  const RandomLayer uploaded = MakeRandomLayer(8, 64, &random_);
  auto upload = directory_->Begin(uploaded.spec);
  ASSERT_TRUE(upload.ok());
  ImageKeeperOptions options = Quick();
  options.quiet = absl::Hours(1);
  ImageKeeper keeper(backend_.get(), store_.get(), loader_.get(), options);
  ASSERT_TRUE((*upload)->Append(uploaded.payload.substr(0, 10)).ok());
  keeper.Start();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(directory_->images()->file_count(), 0);
  keeper.Stop();  // also in the middle of such a wait
}

}  // namespace
}  // namespace qgemm
