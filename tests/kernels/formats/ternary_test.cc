// SPDX-License-Identifier: Apache-2.0

#include "kernels/formats/ternary.h"

#include <string>
#include <vector>

#include "base/checked_math.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 3;

struct TernaryCase {
  std::vector<int> weights;  // [kRows, k]
  std::vector<float> scales;
};

TernaryCase RandomCase(int64_t k, FreshRandom* random) {
  TernaryCase result;
  for (int64_t i = 0; i < kRows * k; ++i) {
    result.weights.push_back(random->Int(-1, 1));
  }
  for (int64_t i = 0; i < kRows; ++i) {
    result.scales.push_back(random->Uniform(-2.0f, 2.0f));
  }
  return result;
}

Upload Encode(const TernaryCase& source, int64_t k, TernaryCoding coding) {
  Upload upload(TernarySpec(kRows, k, coding));
  for (int64_t row = 0; row < kRows; ++row) {
    upload.Put(Section::kScales, row, source.scales[row]);
    for (int64_t column = 0; column < k; ++column) {
      const int t = source.weights[row * k + column];
      std::vector<uint8_t>& codes = upload[Section::kCodes];
      if (coding == TernaryCoding::kInt8) {
        codes[row * k + column] = static_cast<uint8_t>(t);
        continue;
      }
      const int stored = t + (coding == TernaryCoding::kPacked012 ? 1 : 2);
      codes[row * CeilDiv(k, 4) + column / 4] |= stored << (2 * (column % 4));
    }
  }
  return upload;
}

TEST(TernaryDecoder, EveryCodingMakesTheWeightsTimesTheScale) {
  FreshRandom random;
  for (const int64_t k : {1, 2, 3, 4, 5, 37, 256}) {
    const TernaryCase source = RandomCase(k, &random);
    for (const TernaryCoding coding :
         {TernaryCoding::kInt8, TernaryCoding::kPacked012,
          TernaryCoding::kPacked123}) {
      const auto decoded = Encode(source, k, coding).Decode();
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      for (int64_t i = 0; i < kRows * k; ++i) {
        ASSERT_EQ(decoded->weights.Weight(i / k, i % k),
                  source.weights[i] * double{source.scales[i / k]});
      }
    }
  }
}

TEST(TernaryDecoder, PackRowWritesTheDocumentedBytes) {
  FreshRandom random;
  constexpr int64_t kColumns = 37;
  const TernaryCase source = RandomCase(kColumns, &random);
  for (const TernaryCoding coding :
       {TernaryCoding::kInt8, TernaryCoding::kPacked012,
        TernaryCoding::kPacked123}) {
    Upload expected = Encode(source, kColumns, coding);
    std::vector<uint8_t> codes;
    for (int64_t i = 0; i < kColumns; ++i)
      codes.push_back(source.weights[i] + 1);
    std::vector<uint8_t> row(TernaryRowBytes(coding, kColumns), 0xff);
    PackTernaryRow(coding, codes.data(), kColumns, row.data());
    expected[Section::kCodes].resize(row.size());
    EXPECT_EQ(row, expected[Section::kCodes]);
  }
}

TEST(TernaryDecoder, TensorWideScaleReachesEveryRow) {
  // More rows than the decoder copies at once.
  WeightsSpec spec = TernarySpec(9000, 1, TernaryCoding::kInt8);
  spec.tensor_wide_scale = true;
  Upload upload(spec);
  upload.Put(Section::kScales, 0, 0.75f);
  for (uint8_t& code : upload[Section::kCodes]) code = 1;
  const auto decoded = upload.Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  for (int64_t row = 0; row < spec.n; ++row) {
    ASSERT_EQ(decoded->weights.Weight(row, 0), 0.75) << row;
  }
}

void ExpectIllegal(const Upload& upload, const std::string& text) {
  const absl::Status status = upload.Decode().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(TernaryDecoder, IllegalInt8NamesRowAndColumn) {
  for (const int bad : {-128, -2, 2, 127}) {
    Upload upload(TernarySpec(3, 7, TernaryCoding::kInt8));
    upload[Section::kCodes][2 * 7 + 5] = static_cast<uint8_t>(bad);
    ExpectIllegal(upload, "row 2, column 5 = " + std::to_string(bad));
  }
}

TEST(TernaryDecoder, IllegalPackedCodeNamesRowAndColumn) {
  Upload upload(TernarySpec(3, 7, TernaryCoding::kPacked012));
  upload[Section::kCodes][2 * 2 + 1] = 3 << 2;
  ExpectIllegal(upload, "row 2, column 5 = 3: must be 0, 1 or 2");
  Upload offset(TernarySpec(3, 7, TernaryCoding::kPacked123));
  for (uint8_t& byte : offset[Section::kCodes]) byte = 0xaa;
  offset[Section::kCodes][2] = 0xa2;
  ExpectIllegal(offset, "row 1, column 1 = 0: must be 1, 2 or 3");
}

TEST(TernaryDecoder, PaddingIsIgnored) {
  Upload upload(TernarySpec(1, 5, TernaryCoding::kPacked012));
  upload[Section::kCodes] = {0x55, 0xfd};
  const auto decoded = upload.Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights.codes(), std::vector<uint8_t>(5, 1));
}

TEST(TernaryDecoder, ScaleMustBeFinite) {
  Upload upload(TernarySpec(3, 1, TernaryCoding::kInt8));
  upload.Put(Section::kScales, 1, 1.0f / 0.0f);
  ExpectIllegal(upload, "scales: row 1, group 0 = inf");
}

}  // namespace
}  // namespace qgemm
