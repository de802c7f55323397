// SPDX-License-Identifier: Apache-2.0
//
// Images of one backend's layers, of which another one makes the same layers.

#include "kernels/matrix/layer_images.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/backends/backends.h"
#include "tests/conformance/batch_run.h"
#include "tests/support/random_matrix.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

constexpr MatmulSignature kSignature = {FloatType::kFloat16,
                                        FloatType::kFloat32};
constexpr int64_t kM = 3;

using Resident = std::shared_ptr<const ResidentWeights>;

class LayerImagesTest : public testing::TestWithParam<BackendKind> {
 protected:
  void SetUp() override {
    auto created = NewBackend();
    if (absl::IsFailedPrecondition(created.status())) {
      GTEST_SKIP() << created.status();
    }
    ASSERT_TRUE(created.ok()) << created.status();
    backend_ = *std::move(created);
  }

  static absl::StatusOr<std::unique_ptr<Backend>> NewBackend() {
    BackendOptions options;
    options.kind = GetParam();
    options.cpu.threads = 2;
    return CreateBackend(options);
  }

  Resident Load(const std::string& recipe, int64_t n, int64_t k) {
    return LoadWhole(backend_.get(),
                     RandomWeights(WeightsRecipeNamed(recipe), n, k, &random_));
  }

  // The image's bytes, in pieces of some odd size.
  absl::StatusOr<std::vector<uint8_t>> BytesOf(const ResidentWeights& weights,
                                               const LayerImage& image) {
    std::vector<uint8_t> bytes(image.size_bytes);
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min<size_t>(9'999'991, bytes.size() - at);
      RETURN_IF_ERROR(backend_->images()->Copy(
          weights, at, absl::MakeSpan(bytes).subspan(at, size)));
      at += size;
    }
    return bytes;
  }

  static absl::StatusOr<Resident> Build(Backend* backend,
                                        const LayerImage& image,
                                        const std::vector<uint8_t>& bytes) {
    ASSIGN_OR_RETURN(const auto sink, backend->images()->NewSink(image));
    size_t at = 0;
    while (true) {
      ASSIGN_OR_RETURN(const absl::Span<uint8_t> piece, sink->Next());
      if (piece.empty()) break;
      std::copy_n(bytes.begin() + at, piece.size(), piece.begin());
      at += piece.size();
    }
    EXPECT_EQ(at, bytes.size());
    return sink->Finish();
  }

  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<Backend> backend_;
};

TEST_P(LayerImagesTest, EveryKindOfLayerComputesTheSameBits) {
  auto other = NewBackend();
  ASSERT_TRUE(other.ok()) << other.status();
  int layers = 0;
  for (const WeightsRecipe& recipe : AllWeightsRecipes()) {
    const int64_t unit = recipe.k_multiple;
    const CanonicalWeights weights =
        RandomWeights(recipe, 200, (700 + unit - 1) / unit * unit, &random_);
    const Resident resident = LoadWhole(backend_.get(), weights);
    if (!backend_->CheckSupport(*resident, kSignature).ok()) continue;
    const auto image = backend_->images()->Describe(*resident);
    ASSERT_TRUE(image.ok()) << recipe.name << ": " << image.status();
    EXPECT_EQ(image->size_bytes, resident->resident_bytes());
    const auto bytes = BytesOf(*resident, *image);
    ASSERT_TRUE(bytes.ok()) << recipe.name << ": " << bytes.status();
    const auto built = Build(other->get(), *image, *bytes);
    ASSERT_TRUE(built.ok()) << recipe.name << ": " << built.status();
    const RequestRows rows = {
        kM, RandomMatrix(kSignature.a_type, kM, weights.header().k, &random_)};
    EXPECT_TRUE(RunBatch(other->get(), {*built, kSignature, {rows}}) ==
                RunBatch(backend_.get(), {resident, kSignature, {rows}}))
        << recipe.name;
    const auto again = (*other)->images()->Describe(**built);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->checksum, image->checksum) << recipe.name;
    EXPECT_EQ(again->detail, image->detail) << recipe.name;
    ++layers;
  }
  EXPECT_GT(layers, 0);
}

// Several pieces of the sink's.
TEST_P(LayerImagesTest, ALargeLayerIsTheSame) {
  const Resident resident = Load("dense_fp16", 3000, 4100);
  const auto image = backend_->images()->Describe(*resident);
  ASSERT_TRUE(image.ok()) << image.status();
  const auto bytes = BytesOf(*resident, *image);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(Build(backend_.get(), *image, *bytes).ok());
}

TEST_P(LayerImagesTest, OtherBytesAreRefusedAndLeaveNoMemory) {
  const Resident resident = Load("q4_0", 64, 256);
  const auto image = backend_->images()->Describe(*resident);
  ASSERT_TRUE(image.ok()) << image.status();
  auto bytes = BytesOf(*resident, *image);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const int64_t before = backend_->memory().weights_bytes;
  (*bytes)[RandomInt(0, bytes->size() - 1, &random_)] ^= 4;
  EXPECT_EQ(Build(backend_.get(), *image, *bytes).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_TRUE(backend_->images()->NewSink(*image).ok());
  EXPECT_EQ(backend_->memory().weights_bytes, before);
}

TEST_P(LayerImagesTest, PartsPastTheEndAreRefused) {
  const Resident resident = Load("q4_0", 64, 256);
  const int64_t end = resident->resident_bytes();
  std::vector<uint8_t> bytes(16);
  for (const int64_t offset :
       {int64_t{-1}, end - 15, end + 1, int64_t{1} << 62}) {
    EXPECT_EQ(backend_->images()
                  ->Copy(*resident, offset, absl::MakeSpan(bytes))
                  .code(),
              absl::StatusCode::kInvalidArgument)
        << offset;
  }
}

// A file's checksums keep such bytes away; here they get this far.
TEST_P(LayerImagesTest, NoDetailCrashesTheBackend) {
  for (const char* const name : {"q4_0", "dense_fp16"}) {
    const Resident resident = Load(name, 64, 256);
    const auto image = backend_->images()->Describe(*resident);
    ASSERT_TRUE(image.ok()) << image.status();
    for (size_t size = 0; size < image->detail.size(); ++size) {
      LayerImage other = *image;
      other.detail.resize(size);
      EXPECT_EQ(backend_->images()->NewSink(other).status().code(),
                absl::StatusCode::kInvalidArgument)
          << size;
    }
    for (int i = 0; i < 2000; ++i) {
      LayerImage other = *image;
      for (int64_t change = RandomInt(1, 4, &random_); change > 0; --change) {
        const int64_t at = RandomInt(0, other.detail.size() - 1, &random_);
        other.detail[at] = static_cast<char>(random_());
      }
      if (RandomInt(0, 3, &random_) == 0) other.size_bytes = random_() >> 20;
      const auto sink = backend_->images()->NewSink(other);
      EXPECT_TRUE(sink.ok() || absl::IsInvalidArgument(sink.status()) ||
                  absl::IsUnimplemented(sink.status()))
          << sink.status();
    }
  }
}

std::string NameOfKind(const testing::TestParamInfo<BackendKind>& info) {
  return std::string(Name(info.param));
}

INSTANTIATE_TEST_SUITE_P(Backends, LayerImagesTest,
                         testing::Values(BackendKind::kCpu, BackendKind::kCuda),
                         NameOfKind);

}  // namespace
}  // namespace qgemm
