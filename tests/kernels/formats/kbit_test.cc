// SPDX-License-Identifier: Apache-2.0

#include "kernels/formats/kbit.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/float16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/codebooks.h"
#include "kernels/formats/e4m4.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

// Bit j of word block * bits + p is bit p of the code of element j.
int CodeAt(const std::vector<uint8_t>& planes, int64_t block, int bits,
           int element) {
  int code = 0;
  for (int plane = 0; plane < bits; ++plane) {
    uint32_t word;
    std::memcpy(&word, &planes[(block * bits + plane) * 4], 4);
    code |= (word >> element & 1) << plane;
  }
  return code;
}

TEST(KbitPlanes, UnpackFollowsTheBitFormula) {
  FreshRandom random;
  for (int bits = 2; bits <= 5; ++bits) {
    constexpr int64_t kBlocks = 9;
    const std::vector<uint8_t> planes = random.Bytes(kBlocks * bits * 4);
    std::vector<uint8_t> codes(kBlocks * 32);
    UnpackKbit(bits, planes.data(), kBlocks, codes.data());
    for (int64_t i = 0; i < kBlocks * 32; ++i) {
      ASSERT_EQ(codes[i], CodeAt(planes, i / 32, bits, i % 32)) << bits;
    }
  }
}

TEST(KbitPlanes, PackIsTheInverse) {
  FreshRandom random;
  for (int bits = 2; bits <= 5; ++bits) {
    const std::vector<uint8_t> planes = random.Bytes(9 * bits * 4);
    std::vector<uint8_t> codes(9 * 32);
    UnpackKbit(bits, planes.data(), 9, codes.data());
    std::vector<uint8_t> again(planes.size());
    PackKbit(bits, codes.data(), 9, again.data());
    EXPECT_EQ(again, planes);
  }
}

TEST(KbitDecoder, FlatFollowsTheFormula) {
  FreshRandom random;
  for (int bits = 2; bits <= 5; ++bits) {
    Upload upload = RandomUpload(KbitSpec(7, 96, bits), &random);
    const auto decoded = upload.Decode();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const std::vector<float> codebook = DefaultKbitCodebook(bits);
    for (int64_t row = 0; row < 7; ++row) {
      for (int64_t column = 0; column < 96; ++column) {
        const int64_t block = row * 3 + column / 32;
        const int code =
            CodeAt(upload[Section::kCodes], block, bits, column % 32);
        const double expected = double{codebook[code]} *
                                E4m4ToFloat(upload[Section::kScales][block]);
        ASSERT_EQ(decoded->weights.Weight(row, column), expected);
      }
    }
  }
}

// The same codes and scales in the other layout.
Upload Tiled(Upload* flat) {
  WeightsSpec spec = flat->spec();
  spec.kbit_layout = KbitLayout::kTiled;
  Upload tiled(spec);
  const int64_t block_bytes = spec.bits * 4;
  const int64_t scale_bytes = SizeOf(spec.scale_type);
  const int64_t blocks = spec.k / 32;
  for (int64_t row = 0; row < spec.n; ++row) {
    for (int64_t block = 0; block < blocks; ++block) {
      // [k_tile][n_tile][col][kb]
      int64_t index = block / 2;
      index = index * (spec.n / 128) + row / 128;
      index = index * 128 + row % 128;
      index = index * 2 + block % 2;
      const int64_t source = row * blocks + block;
      std::memcpy(&tiled[Section::kCodes][index * block_bytes],
                  &(*flat)[Section::kCodes][source * block_bytes], block_bytes);
      std::memcpy(&tiled[Section::kScales][index * scale_bytes],
                  &(*flat)[Section::kScales][source * scale_bytes],
                  scale_bytes);
    }
  }
  return tiled;
}

TEST(KbitDecoder, TiledMakesTheSameWeightsAsFlat) {
  FreshRandom random;
  for (int bits = 2; bits <= 5; ++bits) {
    for (const int64_t k : {32, 64, 160}) {
      for (const ScaleType type :
           {ScaleType::kE4m4, ScaleType::kFloat16, ScaleType::kFloat32}) {
        WeightsSpec spec = KbitSpec(256, k, bits);
        spec.scale_type = type;
        Upload flat = RandomUpload(spec, &random);
        const auto expected = flat.Decode();
        const auto tiled = Tiled(&flat).Decode();
        ASSERT_TRUE(expected.ok()) << expected.status();
        ASSERT_TRUE(tiled.ok()) << tiled.status();
        EXPECT_TRUE(SameWeights(tiled->weights, expected->weights));
      }
    }
  }
}

TEST(KbitDecoder, CustomCodebookIsUsedAsItIs) {
  FreshRandom random;
  WeightsSpec spec = KbitSpec(2, 32, 2);
  spec.has_codebook = true;
  Upload upload = RandomUpload(spec, &random);
  const std::vector<float> codebook = {3.0f, -7.5f, 0.0f, 1e30f};
  for (int i = 0; i < 4; ++i) upload.Put(Section::kCodebook, i, codebook[i]);
  const auto decoded = upload.Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights.header().codebook, codebook);
}

TEST(KbitDecoder, CodebookMustBeFinite) {
  WeightsSpec spec = KbitSpec(1, 32, 2);
  spec.has_codebook = true;
  for (const float bad : {1.0f / 0.0f, -1.0f / 0.0f, std::nanf("")}) {
    Upload upload(spec);
    upload.Put(Section::kCodebook, 3, bad);
    const absl::Status status = upload.Decode().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("codebook[3]"));
  }
}

// Decodes one row whose blocks have these absmax.
absl::StatusOr<Upload::Decoded> DecodeAbsmax(const std::vector<float>& absmax,
                                             ScaleType type) {
  WeightsSpec spec = KbitSpec(1, 32 * absmax.size(), 4);
  spec.scale_type = type;
  Upload upload(spec);
  for (size_t i = 0; i < absmax.size(); ++i) {
    if (type == ScaleType::kFloat32) {
      upload.Put(Section::kScales, i, absmax[i]);
    } else {
      upload.Put(Section::kScales, i, FloatToFloat16(absmax[i]));
    }
  }
  return upload.Decode();
}

TEST(KbitDecoder, AbsmaxInRangeNeedsNoTensorScale) {
  const std::vector<float> absmax = {31.0f, 0x1p-10f, 0.0f, 1.25f};
  for (const ScaleType type : {ScaleType::kFloat32, ScaleType::kFloat16}) {
    const auto decoded = DecodeAbsmax(absmax, type);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->weights.tensor_scale(), 1.0f);
    for (size_t i = 0; i < absmax.size(); ++i) {
      EXPECT_EQ(E4m4ToFloat(decoded->weights.scales()[i]), absmax[i]);
    }
  }
}

TEST(KbitDecoder, LargeAbsmaxIsScaledDownExactly) {
  const auto decoded = DecodeAbsmax({31e3f, 1000.0f}, ScaleType::kFloat32);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights.tensor_scale(), 1024.0f);
  EXPECT_EQ(decoded->weights.scales()[0], FloatToE4m4(31e3f / 1024));
  EXPECT_EQ(decoded->weights.scales()[1], FloatToE4m4(1000.0f / 1024));
  EXPECT_EQ(decoded->report.flushed_blocks, 0);
}

TEST(KbitDecoder, SmallAbsmaxIsScaledUp) {
  const auto decoded = DecodeAbsmax({0x1p-20f, 0x1p-24f}, ScaleType::kFloat32);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights.tensor_scale(), 0x1p-24f);
  EXPECT_EQ(E4m4ToFloat(decoded->weights.scales()[0]), 16.0f);
  EXPECT_EQ(E4m4ToFloat(decoded->weights.scales()[1]), 1.0f);
}

TEST(KbitDecoder, BlocksBeyondTheRangeAreFlushedAndCounted) {
  // Under a tensor scale of 2^20, 2^-15 of it rounds to zero (half to even),
  // the next float does not; a zero block is not counted.
  const float edge = 0x1p5f;
  const auto decoded =
      DecodeAbsmax({31 * 0x1p20f, edge, std::nextafter(edge, 64.0f), 0.0f},
                   ScaleType::kFloat32);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights.tensor_scale(), 0x1p20f);
  EXPECT_EQ(decoded->weights.scales()[1], 0);
  EXPECT_EQ(decoded->weights.scales()[2], 1);
  EXPECT_EQ(decoded->report.flushed_blocks, 1);
}

TEST(KbitDecoder, ExtremeAbsmaxStaysFinite) {
  const float largest = 3.4e38f;
  const auto decoded = DecodeAbsmax({largest, 0.0f}, ScaleType::kFloat32);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const double stored = double{E4m4ToFloat(decoded->weights.scales()[0])} *
                        decoded->weights.tensor_scale();
  EXPECT_NEAR(stored / largest, 1.0, 1.0 / 32);
}

TEST(KbitDecoder, AllZeroAbsmaxIsZero) {
  const auto decoded = DecodeAbsmax({0.0f, -0.0f}, ScaleType::kFloat32);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights.tensor_scale(), 1.0f);
  EXPECT_EQ(decoded->report.flushed_blocks, 0);
}

TEST(KbitDecoder, IllegalAbsmaxNamesRowAndBlock) {
  for (const ScaleType type : {ScaleType::kFloat32, ScaleType::kFloat16}) {
    for (const float bad : {-1.0f, 1.0f / 0.0f, std::nanf("")}) {
      const absl::Status status =
          DecodeAbsmax({1.0f, 1.0f, bad, 1.0f}, type).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("row 0, block 2"));
    }
  }
}

}  // namespace
}  // namespace qgemm
