// SPDX-License-Identifier: Apache-2.0
//
// Synthetic operands: normal values, every format's sections, rotated rows, and
// layers that are reproducible and all different.

#include "loadtest/workload/synthetic_layers.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/sha256.h"
#include "gtest/gtest.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/canonical_weights.h"
#include "loadtest/workload/random_operands.h"
#include "tests/loadtest/schedule/distributions.h"

namespace qgemm::loadtest {
namespace {

const auto kFormats =
    testing::Values("kbit2", "kbit3", "kbit4", "kbit5", "q4_0", "ternary",
                    "int4", "int4-asymmetric", "fp16", "bf16");

class EveryFormat : public testing::TestWithParam<std::string> {};

TEST_P(EveryFormat, FillsTheSectionsOfItsSpec) {
  const auto encoded = MakeRandomWeights(GetParam(), 64, 3, 1);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_TRUE(Validate(encoded->spec, WeightsLimits()).ok());
  int64_t bytes = 0;
  for (const auto& section : encoded->sections) bytes += section.bytes.size();
  EXPECT_EQ(bytes, TotalBytes(encoded->spec));
}

INSTANTIATE_TEST_SUITE_P(MakeRandomWeights, EveryFormat, kFormats);

TEST(MakeRandomWeights, RefusesAnUnknownFormat) {
  for (const char* format : {"kbit1", "kbit6", "kbit44", "fp8", ""}) {
    EXPECT_EQ(MakeRandomWeights(format, 32, 1, 1).status().code(),
              absl::StatusCode::kInvalidArgument)
        << format;
  }
}

TEST(MakeRandomActivations, HoldsTheAskedElements) {
  EXPECT_EQ(MakeRandomActivations(FloatType::kFloat32, 10, 1).size(), 40u);
  EXPECT_EQ(MakeRandomActivations(FloatType::kBFloat16, 10, 1).size(), 20u);
  EXPECT_NE(MakeRandomActivations(FloatType::kFloat16, 10, 1),
            MakeRandomActivations(FloatType::kFloat16, 10, 2));
}

class NormalValuesTest : public testing::Test {
 protected:
  std::vector<float> Draw(int count, float deviation = 1) const {
    std::vector<float> values(count);
    NormalValues(seed_).Fill(deviation, absl::MakeSpan(values));
    return values;
  }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_F(NormalValuesTest, HaveTheNormalDistribution) {
  constexpr int kValues = 1000000;
  const std::vector<float> values = Draw(kValues);
  // A step of the 65536 quantiles is the most that the table adds.
  EXPECT_LT(KolmogorovSmirnov(
                {values.begin(), values.end()},
                [](double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }),
            KolmogorovSmirnovBound(kValues) + 1.0 / 65536);
}

TEST_F(NormalValuesTest, EachQuantileComesAndEachIsRight) {
  // A quantile is missing with a probability of e^-40 each.
  const std::vector<float> values = Draw(40 * 65536);
  const std::set<float> quantiles(values.begin(), values.end());
  ASSERT_EQ(quantiles.size(), 65536);
  double expected = 0.5 / 65536;
  for (const float quantile : quantiles) {
    const double probability = std::erfc(-quantile * std::sqrt(0.5)) / 2;
    // A float's rounding, times the density's largest value, 0.4, or the
    // density's times 4.4 further out: less than 2^-24 either way.
    EXPECT_NEAR(probability, expected, 0x1p-24);
    expected += 1.0 / 65536;
  }
}

TEST_F(NormalValuesTest, NeighboursAreIndependent) {
  // By the signs of four neighbours, which come of one draw: 16 equal cells.
  constexpr int kDraws = 100000;
  const std::vector<float> values = Draw(4 * kDraws);
  std::vector<int64_t> counts(16);
  for (int i = 0; i < 4 * kDraws; i += 4) {
    ++counts[(values[i] > 0) + 2 * (values[i + 1] > 0) +
             4 * (values[i + 2] > 0) + 8 * (values[i + 3] > 0)];
  }
  double chi_square = 0;
  for (int64_t count : counts) {
    const double expected = kDraws / 16.0;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_TRUE(IsCredible(ChiSquareCdf(15, chi_square))) << chi_square;
}

constexpr int64_t kK = 96;
constexpr int64_t kN = 13;

// Rows of any part of the canonical form: a rotation of its n equal pieces.
template <typename T>
std::vector<T> Rotated(std::vector<T> rows, int64_t row_shift) {
  const auto row_size = static_cast<int64_t>(rows.size()) / kN;
  std::rotate(rows.begin(), rows.begin() + row_shift * row_size, rows.end());
  return rows;
}

CanonicalWeights Decode(const EncodedWeights& weights) {
  absl::StatusOr<CanonicalWeights> canonical = DecodeWeights(weights);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  return *std::move(canonical);
}

void ExpectRotated(const EncodedWeights& base, int64_t row_shift) {
  SCOPED_TRACE(row_shift);
  const auto rotated = RotateRows(base, row_shift);
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  const CanonicalWeights from = Decode(base);
  const CanonicalWeights to = Decode(*rotated);
  EXPECT_EQ(to.codes(), Rotated(from.codes(), row_shift));
  EXPECT_EQ(to.scales(), Rotated(from.scales(), row_shift));
  EXPECT_EQ(to.zeros(), Rotated(from.zeros(), row_shift));
  EXPECT_EQ(to.dense(), Rotated(from.dense(), row_shift));
  EXPECT_EQ(to.header().bias, Rotated(from.header().bias, row_shift));
  EXPECT_EQ(to.header().codebook, from.header().codebook);
  EXPECT_EQ(to.tensor_scale(), from.tensor_scale());
}

class RotateEveryFormat : public testing::TestWithParam<std::string> {
 protected:
  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_P(RotateEveryFormat, DecodesToTheRotatedRows) {
  const auto base = MakeRandomWeights(GetParam(), kK, kN, seed_);
  ASSERT_TRUE(base.ok()) << base.status();
  for (int64_t row_shift : {int64_t{0}, int64_t{1}, int64_t{5}, kN - 1}) {
    ExpectRotated(*base, row_shift);
  }
}

INSTANTIATE_TEST_SUITE_P(RotateRows, RotateEveryFormat, kFormats);

std::vector<float> Ascending(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(0.25f * i - 3);
  return values;
}

TEST(RotateRows, MovesTheBiasAndLeavesTheCodebook) {
  EncodeOptions options;
  options.bits = 2;
  options.codebook = {-1, -0.25f, 0.5f, 1};
  const auto base =
      EncodeWeights(Ascending(kN * kK), kN, kK, Ascending(kN), options);
  ASSERT_TRUE(base.ok()) << base.status();
  ASSERT_EQ(base->sections.size(), 4);  // codebook, bias, scales, codes
  ExpectRotated(*base, 5);
}

TEST(RotateRows, LeavesATensorWideScale) {
  EncodedWeights base;
  base.spec.format = WireFormat::kTernary;
  base.spec.n = 2;
  base.spec.k = 1;
  base.spec.tensor_wide_scale = true;
  base.sections = {{Section::kScales, {1, 2, 3, 4}},
                   {Section::kCodes, {0xff, 1}}};
  const auto rotated = RotateRows(base, 1);
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  EXPECT_EQ(rotated->sections[0].bytes, base.sections[0].bytes);
  EXPECT_EQ(rotated->sections[1].bytes, (std::vector<uint8_t>{1, 0xff}));
}

TEST(RotateRows, RefusesLayoutsThatAreNotOfRows) {
  EncodedWeights base;
  base.spec.n = 8;
  base.spec.format = WireFormat::kKbit;
  base.spec.kbit_layout = KbitLayout::kTiled;
  EXPECT_EQ(RotateRows(base, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  base.spec.format = WireFormat::kInt4;
  base.spec.kbit_layout = KbitLayout::kFlat;
  for (Int4Layout layout :
       {Int4Layout::kGptqV1, Int4Layout::kGptqV2, Int4Layout::kAwq}) {
    base.spec.int4_layout = layout;
    EXPECT_EQ(RotateRows(base, 1).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

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
    return {GetParam(), 64, 11, seed_, index};
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

TEST_P(SyntheticLayersTest, AreRotationsOfTheFirst) {
  const auto base = MakeRandomWeights(GetParam(), 64, 11, seed_);
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(MadeId(&layers_, Layer(0)), Id(*base));
  const auto rotated = RotateRows(*base, RowShift(4, 11));
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  EXPECT_EQ(MadeId(&layers_, Layer(4)), Id(*rotated));
}

INSTANTIATE_TEST_SUITE_P(SyntheticLayers, SyntheticLayersTest, kFormats);

TEST(SyntheticLayers, RefusesWhatCannotBeMade) {
  SyntheticLayers layers;
  for (const SyntheticLayer& bad : {SyntheticLayer{"fp7", 64, 8, 1, 0},
                                    SyntheticLayer{"kbit4", 33, 8, 1, 0},
                                    SyntheticLayer{"kbit4", 0, 8, 1, 0},
                                    SyntheticLayer{"kbit4", 64, 0, 1, 0},
                                    SyntheticLayer{"kbit4", 64, 8, 1, -1}}) {
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

}  // namespace

}  // namespace qgemm::loadtest
