// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/int4.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr int kAwqColumns[] = {0, 2, 4, 6, 1, 3, 5, 7};

int32_t WordAt(Upload* upload, Section section, int64_t index) {
  int32_t word;
  std::memcpy(&word, &(*upload)[section][index * 4], 4);
  return word;
}

int Nibble(int32_t word, int nibble) {
  return static_cast<uint32_t>(word) >> (4 * nibble) & 15;
}

// The nibble of a row that holds `column` of the eight in a word.
int NibbleOf(Int4Layout layout, int column) {
  if (layout != Int4Layout::kAwq) return column;
  return std::find(kAwqColumns, kAwqColumns + 8, column) - kAwqColumns;
}

// (q - z) * s of output feature n and input feature k from the bytes.
double WeightAt(Upload* upload, int64_t n, int64_t k) {
  const WeightsSpec& spec = upload->spec();
  const Int4Layout layout = spec.int4_layout;
  const int64_t group_size = spec.group_size == 0 ? spec.k : spec.group_size;
  const int64_t group = spec.has_group_index
                            ? WordAt(upload, Section::kGroupIndex, k)
                            : k / group_size;
  const int nibble = NibbleOf(layout, n % 8);
  const int code =
      layout == Int4Layout::kAwq
          ? Nibble(WordAt(upload, Section::kCodes, k * (spec.n / 8) + n / 8),
                   nibble)
          : Nibble(WordAt(upload, Section::kCodes, k / 8 * spec.n + n), k % 8);
  int zero = Nibble(
      WordAt(upload, Section::kZeros, group * (spec.n / 8) + n / 8), nibble);
  if (layout == Int4Layout::kGptqV1) ++zero;
  const double scale = LoadScale(
      spec.scale_type, &(*upload)[Section::kScales][(group * spec.n + n) *
                                                    SizeOf(spec.scale_type)]);
  return (code - zero) * scale;
}

// Compares by input feature, so that a permutation cancels out.
void ExpectFormula(Upload* upload) {
  SCOPED_TRACE(CanonicalText(upload->spec()));
  const auto decoded = upload->Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const CanonicalWeights& weights = decoded->weights;
  for (int64_t row = 0; row < upload->spec().n; ++row) {
    for (int64_t column = 0; column < upload->spec().k; ++column) {
      ASSERT_EQ(weights.Weight(row, column),
                WeightAt(upload, row, weights.InputFeature(column)))
          << "row " << row << ", column " << column;
    }
  }
}

TEST(GptqAwqDecoder, FollowsTheFormula) {
  FreshRandom random;
  for (const Int4Layout layout :
       {Int4Layout::kGptqV1, Int4Layout::kGptqV2, Int4Layout::kAwq}) {
    for (const int64_t group : {32, 64, 128, 0}) {
      for (const ScaleType type :
           {ScaleType::kFloat16, ScaleType::kBFloat16, ScaleType::kFloat32}) {
        WeightsSpec spec = Int4Spec(40, 384, layout, group);
        spec.scale_type = type;
        Upload upload = RandomUpload(spec, &random);
        ExpectFormula(&upload);
      }
    }
  }
}

TEST(GptqAwqDecoder, OneGroupMayHaveAnyMultipleOf8) {
  FreshRandom random;
  for (const Int4Layout layout : {Int4Layout::kGptqV2, Int4Layout::kAwq}) {
    Upload upload = RandomUpload(Int4Spec(8, 40, layout, 0), &random);
    ExpectFormula(&upload);
  }
}

TEST(GptqAwqDecoder, ActOrderMultipliesTheSameInputFeatures) {
  FreshRandom random;
  for (const Int4Layout layout : {Int4Layout::kGptqV1, Int4Layout::kGptqV2}) {
    WeightsSpec spec = Int4Spec(24, 256, layout, 64);
    spec.has_group_index = true;
    Upload upload = RandomUpload(spec, &random);
    ExpectFormula(&upload);
  }
}

TEST(GptqAwqDecoder, IdentityActOrderMatchesNone) {
  FreshRandom random;
  WeightsSpec spec = Int4Spec(24, 256, Int4Layout::kGptqV1, 64);
  Upload plain = RandomUpload(spec, &random);
  spec.has_group_index = true;
  Upload indexed(spec);
  for (int32_t k = 0; k < 256; ++k) {
    indexed.Put<int32_t>(Section::kGroupIndex, k, k / 64);
  }
  for (const Section section :
       {Section::kScales, Section::kZeros, Section::kCodes}) {
    indexed[section] = plain[section];
  }
  const auto expected = plain.Decode();
  const auto decoded = indexed.Decode();
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights.codes(), expected->weights.codes());
  EXPECT_EQ(decoded->weights.scales(), expected->weights.scales());
  EXPECT_EQ(decoded->weights.zeros(), expected->weights.zeros());
}

TEST(GptqAwqDecoder, GptqV1ZeroOf15Means16) {
  Upload upload(Int4Spec(8, 32, Int4Layout::kGptqV1, 32));
  for (uint8_t& byte : upload[Section::kZeros]) byte = 0xff;
  const auto decoded = upload.Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights.zeros(), std::vector<uint8_t>(8, 16));
}

TEST(GptqAwqDecoder, IllegalGroupIndexIsNamed) {
  WeightsSpec spec = Int4Spec(8, 64, Int4Layout::kGptqV1, 32);
  spec.has_group_index = true;
  Upload upload(spec);
  for (int32_t k = 0; k < 64; ++k) {
    upload.Put<int32_t>(Section::kGroupIndex, k, k % 2);
  }
  EXPECT_TRUE(upload.Decode().ok());
  upload.Put<int32_t>(Section::kGroupIndex, 63, 2);
  const absl::Status status = upload.Decode().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("group_index[63] = 2: must be 0 to 1"));
}

TEST(GptqAwqDecoder, ScaleMustBeFinite) {
  Upload upload(Int4Spec(8, 64, Int4Layout::kAwq, 32));
  const uint16_t infinity = 0x7c00;
  upload.Put(Section::kScales, 1 * 8 + 3, infinity);
  const absl::Status status = upload.Decode().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("row 3, group 1 = inf"));
}

}  // namespace
}  // namespace qgemm
