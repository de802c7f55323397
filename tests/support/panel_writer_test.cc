// SPDX-License-Identifier: Apache-2.0
//
// That panels cover a layer once, and that a sink's error ends the writing.

#include "tests/support/panel_writer.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/support/random_weights.h"
#include "tests/support/recording_sink.h"

namespace qgemm {
namespace {

TEST(PanelWriterTest, RandomPanelsMakeTheSameLayer) {
  RandomGenerator random(FreshSeed());
  for (const WeightsRecipe& recipe : AllWeightsRecipes()) {
    const CanonicalWeights weights = RandomWeights(recipe, 17, 256, &random);
    RecordingSink sink;
    ASSERT_EQ(WriteInRandomPanels(weights, &random, &sink), absl::OkStatus());
    EXPECT_EQ(sink.weights().codes(), weights.codes()) << recipe.name;
    EXPECT_EQ(sink.weights().scales(), weights.scales()) << recipe.name;
    EXPECT_EQ(sink.weights().zeros(), weights.zeros()) << recipe.name;
    EXPECT_EQ(sink.weights().dense(), weights.dense()) << recipe.name;
    EXPECT_EQ(sink.weights().tensor_scale(), weights.tensor_scale())
        << recipe.name;
  }
}

TEST(PanelWriterTest, RandomPanelsWriteEachCodeOnce) {
  RandomGenerator random(FreshSeed());
  RecordingSink sink;
  ASSERT_EQ(WriteInRandomPanels(
                RandomWeights(WeightsRecipeNamed("q4_0"), 9, 96, &random),
                &random, &sink),
            absl::OkStatus());
  const auto& written = sink.codes_written();
  EXPECT_EQ(std::count(written.begin(), written.end(), 1), 9 * 96);
}

TEST(PanelWriterTest, StopsAtTheFirstError) {
  RandomGenerator random(FreshSeed());
  RecordingSink sink;
  sink.FailAfter(1, absl::ResourceExhaustedError("full"));
  EXPECT_EQ(
      WriteWhole(RandomWeights(WeightsRecipeNamed("q4_0"), 2, 32, &random),
                 &sink),
      absl::ResourceExhaustedError("full"));
  EXPECT_EQ(sink.begin_calls(), 1);
  EXPECT_EQ(sink.scale_panels() + sink.code_panels(), 1);
}

}  // namespace
}  // namespace qgemm
