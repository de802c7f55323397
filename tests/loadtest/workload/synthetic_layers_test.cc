// SPDX-License-Identifier: Apache-2.0
//
// Synthetic operands: normal values, every format's sections, rotated rows, and
// layers that are reproducible and all different.

#include "loadtest/workload/synthetic_layers.h"

#include <algorithm>
#include <cstring>
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

TEST(MakeRandomActivations, AreNormalAndDifferFromTheirNeighbours) {
  constexpr int kValues = 1 << 20;
  const std::vector<uint8_t> bytes =
      MakeRandomActivations(FloatType::kFloat32, kValues, 1);
  std::vector<float> values(kValues);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  double sum = 0;
  double squares = 0;
  double products = 0;  // with the next value
  for (int i = 0; i + 1 < kValues; ++i) {
    sum += values[i];
    squares += values[i] * values[i];
    products += values[i] * values[i + 1];
  }
  // The table's own deviation, 2^-8, counts most: 5 of them.
  EXPECT_NEAR(sum / kValues, 0, 0.02);
  EXPECT_NEAR(squares / kValues, 1, 0.03);
  EXPECT_NEAR(products / kValues, 0, 0.01);
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
  const CanonicalWeights from = Decode(base);
  const CanonicalWeights to = Decode(rotated);
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
  EXPECT_EQ(MadeId(&layers_, Layer(4)), Id(RotateRows(*base, 4)));
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

}  // namespace

}  // namespace qgemm::loadtest
