// SPDX-License-Identifier: Apache-2.0

#include "kernels/formats/int4.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

// (q - z) * s straight from the bytes; k / g rounded up groups a row.
double WeightAt(Upload* upload, int64_t row, int64_t column) {
  const WeightsSpec& spec = upload->spec();
  const int64_t group = spec.group_size == 0 ? spec.k : spec.group_size;
  const int64_t index = row * CeilDiv(spec.k, group) + column / group;
  const int byte =
      (*upload)[Section::kCodes][row * CeilDiv(spec.k, 2) + column / 2];
  const int code = column % 2 == 0 ? byte % 16 : byte / 16;
  const int zero = spec.has_zeros ? (*upload)[Section::kZeros][index] : 8;
  const double scale =
      LoadScale(spec.scale_type,
                &(*upload)[Section::kScales][index * SizeOf(spec.scale_type)]);
  return (code - zero) * scale;
}

TEST(Int4PlainDecoder, FollowsTheFormula) {
  FreshRandom random;
  for (const int64_t k : {1, 2, 31, 32, 33, 64, 129, 200}) {
    for (const int64_t group : {0, 32, 64, 128}) {
      for (const bool has_zeros : {false, true}) {
        WeightsSpec spec = Int4Spec(3, k, Int4Layout::kPlain, group);
        spec.has_zeros = has_zeros;
        Upload upload = RandomUpload(spec, &random);
        const auto decoded = upload.Decode();
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        for (int64_t i = 0; i < 3 * k; ++i) {
          ASSERT_EQ(decoded->weights.Weight(i / k, i % k),
                    WeightAt(&upload, i / k, i % k))
              << CanonicalText(spec) << "element " << i;
        }
      }
    }
  }
}

TEST(Int4PlainDecoder, CodesAreIntegers) {
  WeightsSpec spec = Int4Spec(1, 32, Int4Layout::kPlain, 32);
  EXPECT_TRUE(ShapeOf(spec).integer_codes);
  EXPECT_FALSE(ShapeOf(spec).supports_a8);
}

TEST(Int4PlainDecoder, ZeroAbove15NamesRowAndGroup) {
  WeightsSpec spec = Int4Spec(3, 64, Int4Layout::kPlain, 32);
  spec.has_zeros = true;
  Upload upload(spec);
  upload[Section::kZeros][2 * 2 + 1] = 15;
  EXPECT_TRUE(upload.Decode().ok());
  upload[Section::kZeros][2 * 2 + 1] = 16;
  const absl::Status status = upload.Decode().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("row 2, group 1 = 16"));
}

TEST(Int4PlainDecoder, ScaleMustBeFinite) {
  for (const ScaleType type :
       {ScaleType::kFloat16, ScaleType::kBFloat16, ScaleType::kFloat32}) {
    WeightsSpec spec = Int4Spec(3, 64, Int4Layout::kPlain, 32);
    spec.scale_type = type;
    Upload upload(spec);
    const int64_t size = SizeOf(type);
    for (int i = 0; i < size; ++i) {
      upload[Section::kScales][(1 * 2 + 1) * size + i] = 0xff;  // NaN
    }
    const absl::Status status = upload.Decode().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("row 1, group 1"));
  }
}

TEST(Int4PlainDecoder, PackRowIsTheInverse) {
  FreshRandom random;
  for (const int64_t k : {1, 2, 7, 8, 9, 33}) {
    Upload upload =
        RandomUpload(Int4Spec(1, k, Int4Layout::kPlain, 0), &random);
    if (k % 2 != 0) upload[Section::kCodes].back() &= 15;
    const auto decoded = upload.Decode();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    std::vector<uint8_t> packed(CeilDiv(k, 2), 0xff);
    PackInt4Row(decoded->weights.codes().data(), k, packed.data());
    EXPECT_EQ(packed, upload[Section::kCodes]);
  }
}

}  // namespace
}  // namespace qgemm
