// SPDX-License-Identifier: Apache-2.0
//
// Layers of one backend that another one takes over by the descriptors alone,
// as the server after a killed one does.

#include "kernels/matrix/kept_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file_descriptor.h"
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

// Keeps copies of the descriptors, as a holder does.
class RecordingHolder final : public ChunkWatcher {
 public:
  struct Chunk {
    int64_t size_bytes = 0;
    FileDescriptor descriptor;
  };

  void ChunkMade(uint32_t chunk, int64_t size_bytes, int descriptor) override {
    chunks[chunk] = {size_bytes,
                     FileDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0))};
  }
  void ChunkDropped(uint32_t chunk) override { chunks.erase(chunk); }

  std::map<uint32_t, Chunk> chunks;
};

class KeptMemoryTest : public testing::TestWithParam<BackendKind> {
 protected:
  void SetUp() override {
    auto created = NewBackend();
    if (absl::IsFailedPrecondition(created.status())) {
      GTEST_SKIP() << created.status();
    }
    ASSERT_TRUE(created.ok()) << created.status();
    elder_ = *std::move(created);
    elder_->kept_memory()->Watch(&holder_);
  }

  static absl::StatusOr<std::unique_ptr<Backend>> NewBackend() {
    BackendOptions options;
    options.kind = GetParam();
    options.cpu.threads = 2;
    options.cpu.keep_memory = true;
    options.cuda.keep_memory = true;
    return CreateBackend(options);
  }

  KeptLayer PlaceOf(const ResidentWeights& weights) {
    const auto place = elder_->kept_memory()->PlaceOf(weights);
    CHECK(place.has_value());
    return *place;
  }

  RandomGenerator random_{FreshSeed()};
  RecordingHolder holder_;
  std::unique_ptr<Backend> elder_;
  std::unique_ptr<Backend> heir_;
};

TEST_P(KeptMemoryTest, EveryKindOfLayerComputesTheSameBits) {
  struct Kept {
    std::string name;
    KeptLayer place;
    RequestRows rows;
    BatchResults results;
  };
  std::vector<Kept> layers;
  std::vector<std::shared_ptr<const ResidentWeights>> resident;
  for (const WeightsRecipe& recipe : AllWeightsRecipes()) {
    const int64_t unit = recipe.k_multiple;
    const CanonicalWeights weights =
        RandomWeights(recipe, 200, (700 + unit - 1) / unit * unit, &random_);
    resident.push_back(LoadWhole(elder_.get(), weights));
    if (!elder_->CheckSupport(*resident.back(), kSignature).ok()) continue;
    Kept kept;
    kept.name = recipe.name;
    kept.place = PlaceOf(*resident.back());
    kept.rows = {
        kM, RandomMatrix(kSignature.a_type, kM, weights.header().k, &random_)};
    kept.results =
        RunBatch(elder_.get(), {resident.back(), kSignature, {kept.rows}});
    layers.push_back(std::move(kept));
  }
  ASSERT_FALSE(layers.empty());
  // The elder keeps its own mapping; it uses the memory no more.
  elder_->kept_memory()->Watch(nullptr);
  auto heir = NewBackend();
  ASSERT_TRUE(heir.ok()) << heir.status();
  heir_ = *std::move(heir);
  KeptMemory* const memory = heir_->kept_memory();
  for (auto& [number, chunk] : holder_.chunks) {
    ASSERT_EQ(
        memory->Adopt(number, chunk.size_bytes, std::move(chunk.descriptor)),
        absl::OkStatus());
  }
  for (const Kept& kept : layers) {
    const auto inherited = memory->Inherit(kept.place);
    ASSERT_TRUE(inherited.ok()) << kept.name << ": " << inherited.status();
    EXPECT_EQ(memory->Inherit(kept.place).status().code(),
              absl::StatusCode::kInvalidArgument)
        << "of a place that is taken";
    EXPECT_TRUE(RunBatch(heir_.get(), {*inherited, kSignature, {kept.rows}}) ==
                kept.results)
        << kept.name;
  }
  memory->EndAdoption();
  resident.clear();
}

TEST_P(KeptMemoryTest, WhatIsNotTheElderLayerIsRefused) {
  const CanonicalWeights weights =
      RandomWeights(WeightsRecipeNamed("q4_0"), 64, 256, &random_);
  auto resident = LoadWhole(elder_.get(), weights);
  const KeptLayer place = PlaceOf(*resident);
  auto heir = NewBackend();
  ASSERT_TRUE(heir.ok()) << heir.status();
  KeptMemory* const memory = (*heir)->kept_memory();
  const uint32_t number = holder_.chunks.begin()->first;
  auto& chunk = holder_.chunks.begin()->second;
  EXPECT_FALSE(memory->Inherit(place).ok()) << "of a chunk that is not there";
  FileDescriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(
      memory->Adopt(number, chunk.size_bytes, std::move(nothing)).ok());
  ASSERT_EQ(
      memory->Adopt(number, chunk.size_bytes, std::move(chunk.descriptor)),
      absl::OkStatus());
  KeptLayer other = place;
  other.checksum ^= 1;
  EXPECT_EQ(memory->Inherit(other).status().code(),
            absl::StatusCode::kDataLoss);
  other = place;
  other.offset_bytes += 256;  // other bytes
  EXPECT_EQ(memory->Inherit(other).status().code(),
            absl::StatusCode::kDataLoss);
  for (const int64_t offset :
       {int64_t{-256}, int64_t{1}, chunk.size_bytes, int64_t{1} << 62}) {
    other = place;
    other.offset_bytes = offset;
    EXPECT_EQ(memory->Inherit(other).status().code(),
              absl::StatusCode::kInvalidArgument)
        << offset;
  }
  for (const int64_t size :
       {int64_t{0}, int64_t{-1}, place.size_bytes + 1, int64_t{1} << 62}) {
    other = place;
    other.size_bytes = size;
    EXPECT_EQ(memory->Inherit(other).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
  for (size_t size = 0; size < place.detail.size(); ++size) {
    other = place;
    other.detail.resize(size);
    EXPECT_EQ(memory->Inherit(other).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
  EXPECT_TRUE(memory->Inherit(place).ok());
}

// The manifest's checksums keep such bytes away; here they get this far.
TEST_P(KeptMemoryTest, NoDetailOrPlaceCrashesTheHeir) {
  for (const char* const name : {"q4_0", "dense_fp16"}) {
    const CanonicalWeights weights =
        RandomWeights(WeightsRecipeNamed(name), 64, 256, &random_);
    const auto resident = LoadWhole(elder_.get(), weights);
    const KeptLayer place = PlaceOf(*resident);
    auto heir = NewBackend();
    ASSERT_TRUE(heir.ok()) << heir.status();
    KeptMemory* const memory = (*heir)->kept_memory();
    auto& chunk = holder_.chunks.at(place.chunk);
    ASSERT_EQ(memory->Adopt(place.chunk, chunk.size_bytes,
                            FileDescriptor(fcntl(chunk.descriptor.get(),
                                                 F_DUPFD_CLOEXEC, 0))),
              absl::OkStatus());
    for (int i = 0; i < 3000; ++i) {
      KeptLayer other = place;
      for (int64_t change = RandomInt(1, 4, &random_); change > 0; --change) {
        const int64_t at = RandomInt(0, other.detail.size() - 1, &random_);
        other.detail[at] = static_cast<char>(random_());
      }
      if (RandomInt(0, 3, &random_) == 0) other.size_bytes = random_() >> 20;
      if (RandomInt(0, 3, &random_) == 0) other.offset_bytes = random_() >> 20;
      const auto inherited = memory->Inherit(other);
      if (!inherited.ok()) continue;
      EXPECT_EQ((*inherited)->resident_bytes(), place.size_bytes);
    }
  }
}

TEST_P(KeptMemoryTest, AChunkGoesWithItsLastLayer) {
  const CanonicalWeights weights =
      RandomWeights(WeightsRecipeNamed("q4_0"), 64, 256, &random_);
  auto first = LoadWhole(elder_.get(), weights);
  auto second = LoadWhole(elder_.get(), weights);
  EXPECT_EQ(PlaceOf(*first).chunk, PlaceOf(*second).chunk);
  EXPECT_EQ(PlaceOf(*first).checksum, PlaceOf(*second).checksum);
  first.reset();
  EXPECT_EQ(holder_.chunks.size(), 1);
  second.reset();
  EXPECT_EQ(holder_.chunks.size(), 0);
}

std::string NameOfKind(const testing::TestParamInfo<BackendKind>& info) {
  return std::string(Name(info.param));
}

INSTANTIATE_TEST_SUITE_P(Backends, KeptMemoryTest,
                         testing::Values(BackendKind::kCpu, BackendKind::kCuda),
                         NameOfKind);

}  // namespace
}  // namespace qgemm
