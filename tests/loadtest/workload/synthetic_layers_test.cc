// SPDX-License-Identifier: Apache-2.0
//
// Synthetic layers: reproducible, and each another.

#include "loadtest/workload/synthetic_layers.h"

#include <random>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "base/sha256.h"
#include "loadtest/workload/random_operands.h"
#include "loadtest/workload/rotated_rows.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

// As docs/formats.md#identity has it.
std::string Id(const EncodedWeights& weights) {
  Sha256 hash;
  hash.Update(CanonicalText(weights.spec));
  for (const EncodedWeights::SectionBytes& section : weights.sections) {
    hash.Update({reinterpret_cast<const char*>(section.bytes.data()),
                 section.bytes.size()});
  }
  return ToHex(hash.Finish());
}

std::string MadeId(SyntheticLayers* layers, const SyntheticLayer& layer) {
  const auto made = layers->Make(layer);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? Id(*made) : "";
}

class SyntheticLayersTest : public testing::TestWithParam<std::string> {
 protected:
  SyntheticLayer Layer(int64_t index) const {
    return {GetParam(), {64, 11}, seed_, index};
  }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  SyntheticLayers layers_;
};

TEST_P(SyntheticLayersTest, AllHaveIdsOfTheirOwn) {
  // Three times as many as there are rotations.
  std::set<std::string> ids;
  for (int64_t index = 0; index < 33; ++index) {
    ids.insert(MadeId(&layers_, Layer(index)));
  }
  EXPECT_EQ(ids.size(), 33);
}

TEST_P(SyntheticLayersTest, AreTheSameInEveryRunAndOrder) {
  SyntheticLayers others;
  for (int64_t index : {0, 5, 10, 11, 25}) MadeId(&layers_, Layer(index));
  for (int64_t index : {25, 11, 10, 5, 0}) {
    EXPECT_EQ(MadeId(&layers_, Layer(index)), MadeId(&others, Layer(index)));
  }
}

TEST_P(SyntheticLayersTest, OfAnotherSeedAreOthers) {
  SyntheticLayer other = Layer(3);
  ++other.seed;
  EXPECT_NE(MadeId(&layers_, Layer(3)), MadeId(&layers_, other));
}

TEST_P(SyntheticLayersTest, AreRotationsOfTheFirst) {
  const auto base = MakeRandomWeights(GetParam(), {64, 11}, seed_);
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(MadeId(&layers_, Layer(0)), Id(*base));
  const auto rotated = RotateRows(*base, RowShift(4, 11));
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  EXPECT_EQ(MadeId(&layers_, Layer(4)), Id(*rotated));
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, SyntheticLayersTest,
                         testing::Values("kbit2", "kbit3", "kbit4", "kbit5",
                                         "q4_0", "ternary", "int4",
                                         "int4-asymmetric", "fp16", "bf16"));

TEST(SyntheticLayers, RefusesWhatCannotBeMade) {
  SyntheticLayers layers;
  for (const SyntheticLayer& bad : {SyntheticLayer{"fp7", {64, 8}, 1, 0},
                                    SyntheticLayer{"kbit4", {33, 8}, 1, 0},
                                    SyntheticLayer{"kbit4", {0, 8}, 1, 0},
                                    SyntheticLayer{"kbit4", {64, 0}, 1, 0},
                                    SyntheticLayer{"kbit4", {64, 8}, 1, -1}}) {
    EXPECT_EQ(layers.Make(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << SyntheticName(bad);
  }
}

TEST(RowShift, DiffersForEachOfAsManyLayersAsRows) {
  for (int64_t n : {1, 2, 1024, 7918, 7919, 2 * 7919, 14336}) {
    std::set<int64_t> shifts;
    for (int64_t index = 0; index < n; ++index) {
      shifts.insert(RowShift(index, n));
    }
    EXPECT_EQ(shifts.size(), n);
    EXPECT_EQ(*shifts.begin(), 0);
    EXPECT_EQ(*shifts.rbegin(), n - 1);
  }
}

TEST(NumberLayers, CountsEachShapeFromZero) {
  const std::vector<SyntheticLayer> layers = NumberLayers(
      {{"q", 8, 8}, {"k", 8, 4}, {"v", 8, 4}, {"t", 4, 8}, {"o", 8, 8}},
      "kbit4", 7);
  std::vector<std::string> names;
  for (const SyntheticLayer& layer : layers) {
    names.push_back(SyntheticName(layer));
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "loadtest/kbit4/8x8/7/0", "loadtest/kbit4/8x4/7/0",
                       "loadtest/kbit4/8x4/7/1", "loadtest/kbit4/4x8/7/0",
                       "loadtest/kbit4/8x8/7/1"}));
}

TEST(NumberLayers, GivesAModelsLayersNamesOfTheirOwn) {
  const auto shapes = ModelLayers("llama3-70b", 0);
  ASSERT_TRUE(shapes.ok());
  std::set<std::string> names;
  for (const SyntheticLayer& layer : NumberLayers(*shapes, "kbit4", 1)) {
    names.insert(SyntheticName(layer));
  }
  EXPECT_EQ(names.size(), shapes->size());
}

}  // namespace
}  // namespace qgemm
