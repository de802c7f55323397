// SPDX-License-Identifier: Apache-2.0
//
// A rotated layer decodes to the rotated rows of its base, in every format.

#include "loadtest/workload/rotated_rows.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "loadtest/workload/random_operands.h"
#include "gtest/gtest.h"
#include "kernels/matrix/canonical_weights.h"

namespace qgemm {
namespace {

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

class EveryFormat : public testing::TestWithParam<std::string> {
 protected:
  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_P(EveryFormat, DecodesToTheRotatedRows) {
  const auto base = MakeRandomWeights(GetParam(), {kK, kN}, seed_);
  ASSERT_TRUE(base.ok()) << base.status();
  for (int64_t row_shift : {int64_t{0}, int64_t{1}, int64_t{5}, kN - 1}) {
    ExpectRotated(*base, row_shift);
  }
}

TEST_P(EveryFormat, KeepsTheSpec) {
  const auto base = MakeRandomWeights(GetParam(), {kK, kN}, seed_);
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(CanonicalText(RotateRows(*base, 5)->spec),
            CanonicalText(base->spec));
}

INSTANTIATE_TEST_SUITE_P(RotateRows, EveryFormat,
                         testing::Values("kbit2", "kbit3", "kbit4", "kbit5",
                                         "q4_0", "ternary", "int4",
                                         "int4-asymmetric", "fp16", "bf16"));

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

}  // namespace
}  // namespace qgemm
