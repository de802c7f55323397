// SPDX-License-Identifier: Apache-2.0
//
// Files that are wrong although their checksums are right, and what a check
// that takes long leaves alone.

#include "server/weights/layer_scrubber.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/weights/layer_loader_fixture.h"

namespace qgemm {
namespace {

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

using LayerScrubberTest = LayerLoaderTest;

TEST_F(LayerScrubberTest, FindsWhatTheLoaderCannot) {
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

// A scrubber that has come to a large layer and pauses for weeks within it.
class PausedScrubberTest : public LayerLoaderTest {
 protected:
  PausedScrubberTest() {
    CHECK_GT(static_cast<int64_t>(large_.payload.size()), kPaced);
    CHECK_OK(hold_.status());
    CHECK_OK(directory_->Append(
        {{NameChange::Kind::kBind, "large", "", large_.id(), 0}}));
    store_ = NewStore(100000, &metrics_);
    loader_ = std::make_unique<LayerLoader>(&backend_, store_.get(),
                                            LayerLoaderOptions());
    loader_->Start();
    LayerScrubberOptions options;
    options.poll = absl::Milliseconds(1);
    options.bytes_per_second = 1;
    scrubber_ =
        std::make_unique<LayerScrubber>(store_.get(), loader_.get(), options);
    scrubber_->Start();
    while (MetricValue(metrics_, "qgemm_state_verified_bytes_total") < kPaced) {
      std::this_thread::yield();
    }
  }

  static constexpr int64_t kPaced = int64_t{4} << 20;

  const RandomLayer large_ = MakeRandomLayer(1536, 2048, &random_);
  const absl::StatusOr<StateDirectory::FileHold> hold_ =
      KeepLayer(large_, directory_.get(), &random_);
  ServerMetrics metrics_;
  std::unique_ptr<WeightStore> store_;
  std::unique_ptr<LayerLoader> loader_;
  std::unique_ptr<LayerScrubber> scrubber_;
};

TEST_F(PausedScrubberTest, StopsWithinALayer) {
  scrubber_->Stop();
  EXPECT_TRUE(store_->Find(kAnybody, "large").ok());
}

TEST_F(PausedScrubberTest, KeepsNoMemory) {
  const int64_t before = store_->reserved_bytes();
  ASSERT_TRUE(store_->UnloadToDisk(kAnybody, NameOf(0)).ok());
  EXPECT_LT(store_->reserved_bytes(), before);
}

}  // namespace
}  // namespace qgemm
