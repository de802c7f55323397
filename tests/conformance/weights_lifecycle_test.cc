// SPDX-License-Identifier: Apache-2.0
//
// Loading and unloading: panels of any shape in any order, bytes estimated,
// held and given back, shapes beyond the limits refused.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/conformance/batch_run.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/panel_writer.h"
#include "tests/support/random_matrix.h"

namespace qgemm {
namespace {

constexpr MatmulSignature kSignature = {FloatType::kFloat16,
                                        FloatType::kFloat32};

class WeightsLifecycleTest : public PerRecipeTest {
 protected:
  CanonicalWeights RandomLayer() {
    return RandomWeights(recipe(), RandomInt(1, 200, random()),
                         RandomLegalK(recipe(), 1100, random()), random());
  }

  std::unique_ptr<WeightsBuilder> Builder() {
    absl::StatusOr<std::unique_ptr<WeightsBuilder>> builder =
        backend()->NewBuilder();
    CHECK(builder.ok()) << builder.status();
    return *std::move(builder);
  }
};

TEST_P(WeightsLifecycleTest, PanelsInAnyOrderGiveTheSameBits) {
  constexpr int64_t kM = 3;
  for (int repeat = 0; repeat < 4; ++repeat) {
    const CanonicalWeights weights = RandomLayer();
    const std::vector<uint8_t> a =
        RandomMatrix(kSignature.a_type, kM, weights.header().k, random());
    const BatchResults whole = RunBatch(
        backend(), {LoadWhole(backend(), weights), kSignature, {{kM, a}}});
    const std::unique_ptr<WeightsBuilder> builder = Builder();
    ASSERT_EQ(WriteInRandomPanels(weights, random(), builder.get()),
              absl::OkStatus());
    auto resident = builder->Finish();
    ASSERT_TRUE(resident.ok()) << resident.status();
    const BatchResults pieces =
        RunBatch(backend(), {*resident, kSignature, {{kM, a}}});
    EXPECT_TRUE(whole == pieces)
        << "n k = " << weights.header().n << " " << weights.header().k;
  }
}

TEST_P(WeightsLifecycleTest, HoldsTheBytesThatWereEstimated) {
  for (int repeat = 0; repeat < 4; ++repeat) {
    const CanonicalWeights weights = RandomLayer();
    const WeightsShape shape = weights.header();
    const auto resident = LoadWhole(backend(), weights);
    EXPECT_EQ(resident->resident_bytes(),
              backend()->EstimateResidentBytes(shape));
    EXPECT_EQ(resident->n(), shape.n);
    EXPECT_EQ(resident->k(), shape.k);
  }
}

TEST_P(WeightsLifecycleTest, UnloadingGivesTheMemoryBack) {
  const int64_t before = backend()->memory().weights_bytes;
  auto resident = LoadWhole(backend(), RandomLayer());
  const int64_t resident_bytes = resident->resident_bytes();
  EXPECT_EQ(backend()->memory().weights_bytes, before + resident_bytes);
  resident.reset();
  EXPECT_EQ(backend()->memory().weights_bytes, before);
}

TEST_P(WeightsLifecycleTest, DroppingABuilderGivesTheMemoryBack) {
  const CanonicalWeights weights = RandomLayer();
  const int64_t before = backend()->memory().weights_bytes;
  auto begun = Builder();
  ASSERT_EQ(begun->Begin(weights.header()), absl::OkStatus());
  auto written = Builder();
  ASSERT_EQ(WriteWhole(weights, written.get()), absl::OkStatus());
  EXPECT_GT(backend()->memory().weights_bytes, before);
  begun.reset();
  written.reset();
  EXPECT_EQ(backend()->memory().weights_bytes, before);
}

INSTANTIATE_TEST_SUITE_P(
    Backends, WeightsLifecycleTest,
    testing::Combine(testing::ValuesIn(ConformanceBackends()),
                     testing::ValuesIn(AllWeightsRecipes())),
    BackendAndRecipeName);

class WeightsLimitsTest : public PerBackendTest {
 protected:
  absl::Status Begin(int64_t n, int64_t k) {
    WeightsHeader header = WeightsRecipeNamed("int4_gk_fp16").header;
    header.n = n;
    header.k = k;
    header.group_size = k;
    absl::StatusOr<std::unique_ptr<WeightsBuilder>> builder =
        backend()->NewBuilder();
    CHECK(builder.ok()) << builder.status();
    return (*builder)->Begin(header);
  }
};

TEST_P(WeightsLimitsTest, TakesTheLargestOfEach) {
  EXPECT_EQ(Begin(backend()->limits().max_n, 1), absl::OkStatus());
  EXPECT_EQ(Begin(1, backend()->limits().max_k), absl::OkStatus());
}

TEST_P(WeightsLimitsTest, RefusesNBeyond) {
  EXPECT_EQ(Begin(backend()->limits().max_n + 1, 1).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(WeightsLimitsTest, RefusesKBeyond) {
  EXPECT_EQ(Begin(1, backend()->limits().max_k + 1).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(WeightsLimitsTest, RefusingTakesNoMemory) {
  const int64_t before = backend()->memory().weights_bytes;
  EXPECT_FALSE(Begin(backend()->limits().max_n + 1, 1).ok());
  EXPECT_EQ(backend()->memory().weights_bytes, before);
}

TEST_P(WeightsLimitsTest, RefusesALayerThatMemoryCannotHold) {
  const BackendLimits limits = backend()->limits();
  WeightsHeader header = WeightsRecipeNamed("dense_fp16").header;
  header.n = limits.max_n;
  header.k = limits.max_k;
  if (backend()->EstimateResidentBytes(header) <=
      backend()->memory().total_bytes) {
    GTEST_SKIP() << "this device holds the largest layer";
  }
  absl::StatusOr<std::unique_ptr<WeightsBuilder>> builder =
      backend()->NewBuilder();
  ASSERT_TRUE(builder.ok()) << builder.status();
  EXPECT_EQ((*builder)->Begin(header).code(),
            absl::StatusCode::kResourceExhausted);
}

INSTANTIATE_TEST_SUITE_P(Backends, WeightsLimitsTest,
                         testing::ValuesIn(ConformanceBackends()), BackendName);

}  // namespace
}  // namespace qgemm
