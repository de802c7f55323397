// SPDX-License-Identifier: Apache-2.0
//
// Scalar types: names, sizes, loads and stores, and E4M4 by its formula.

#include "kernels/matrix/types.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr FloatType kFloatTypes[] = {FloatType::kFloat32, FloatType::kFloat16,
                                     FloatType::kBFloat16};

TEST(E4m4Test, EveryCodeHasItsDefinedValue) {
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 4;
    const int mantissa = code & 15;
    const double expected = exponent == 0
                                ? std::ldexp(mantissa, -14)
                                : std::ldexp(16 + mantissa, exponent - 15);
    ASSERT_EQ(E4m4ToFloat(static_cast<uint8_t>(code)), expected) << code;
  }
}

TEST(E4m4Test, LandmarksOfTheRange) {
  EXPECT_EQ(E4m4ToFloat(0x00), 0.0f);
  EXPECT_EQ(E4m4ToFloat(0x01), 0x1p-14f);
  EXPECT_EQ(E4m4ToFloat(0x10), 0x1p-10f);
  EXPECT_EQ(E4m4ToFloat(0xb0), 1.0f);
  EXPECT_EQ(E4m4ToFloat(0xff), 31.0f);
}

TEST(E4m4Test, EveryValueIsExactInBothHalfFormats) {
  for (int code = 0; code < 256; ++code) {
    const float value = E4m4ToFloat(static_cast<uint8_t>(code));
    ASSERT_EQ(RoundTo(FloatType::kFloat16, value), value) << code;
    ASSERT_EQ(RoundTo(FloatType::kBFloat16, value), value) << code;
  }
}

TEST(FloatTypeTest, NamesAndSizes) {
  EXPECT_EQ(Name(FloatType::kFloat32), "fp32");
  EXPECT_EQ(Name(FloatType::kFloat16), "fp16");
  EXPECT_EQ(Name(FloatType::kBFloat16), "bf16");
  EXPECT_EQ(SizeOf(FloatType::kFloat32), 4);
  EXPECT_EQ(SizeOf(FloatType::kFloat16), 2);
  EXPECT_EQ(SizeOf(FloatType::kBFloat16), 2);
}

TEST(ScaleTypeTest, NamesAndSizes) {
  EXPECT_EQ(Name(ScaleType::kE4m4), "e4m4");
  EXPECT_EQ(Name(ScaleType::kFloat16), "fp16");
  EXPECT_EQ(Name(ScaleType::kBFloat16), "bf16");
  EXPECT_EQ(Name(ScaleType::kFloat32), "fp32");
  EXPECT_EQ(SizeOf(ScaleType::kE4m4), 1);
  EXPECT_EQ(SizeOf(ScaleType::kFloat16), 2);
  EXPECT_EQ(SizeOf(ScaleType::kBFloat16), 2);
  EXPECT_EQ(SizeOf(ScaleType::kFloat32), 4);
}

TEST(ComputeModeTest, Names) {
  EXPECT_EQ(Name(ComputeMode::kA16), "A16");
  EXPECT_EQ(Name(ComputeMode::kA8), "A8");
  EXPECT_EQ(Name(ComputeMode::kA32), "A32");
}

TEST(LoadFloatTest, ReadsLittleEndianAtAnyAddress) {
  // 1.5 in each type, one byte off alignment.
  const uint8_t fp32[] = {0xee, 0x00, 0x00, 0xc0, 0x3f};
  const uint8_t fp16[] = {0xee, 0x00, 0x3e};
  const uint8_t bf16[] = {0xee, 0xc0, 0x3f};
  EXPECT_EQ(LoadFloat(FloatType::kFloat32, fp32 + 1), 1.5f);
  EXPECT_EQ(LoadFloat(FloatType::kFloat16, fp16 + 1), 1.5f);
  EXPECT_EQ(LoadFloat(FloatType::kBFloat16, bf16 + 1), 1.5f);
  EXPECT_EQ(LoadScale(ScaleType::kFloat32, fp32 + 1), 1.5f);
  EXPECT_EQ(LoadScale(ScaleType::kFloat16, fp16 + 1), 1.5f);
  EXPECT_EQ(LoadScale(ScaleType::kBFloat16, bf16 + 1), 1.5f);
  const uint8_t e4m4 = 0xb8;
  EXPECT_EQ(LoadScale(ScaleType::kE4m4, &e4m4), 1.5f);
}

TEST(StoreFloatTest, WritesExactlyItsBytes) {
  for (const FloatType type : kFloatTypes) {
    uint8_t bytes[6] = {0xee, 0xee, 0xee, 0xee, 0xee, 0xee};
    StoreFloat(type, 1.5f, bytes + 1);
    EXPECT_EQ(LoadFloat(type, bytes + 1), 1.5f) << Name(type);
    EXPECT_EQ(bytes[0], 0xee) << Name(type);
    EXPECT_EQ(bytes[1 + SizeOf(type)], 0xee) << Name(type);
  }
}

// 1 + 3u lies half way between two neighbours of spacing 2u; the even one is
// 1 + 4u.
TEST(RoundToTest, BreaksTiesToEven) {
  EXPECT_EQ(RoundTo(FloatType::kFloat16, 1 + 3 * 0x1p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(RoundTo(FloatType::kFloat16, 1 + 0x1p-11f), 1.0f);
  EXPECT_EQ(RoundTo(FloatType::kBFloat16, 1 + 3 * 0x1p-8f), 1 + 0x1p-6f);
  EXPECT_EQ(RoundTo(FloatType::kBFloat16, 1 + 0x1p-8f), 1.0f);
  EXPECT_EQ(RoundTo(FloatType::kFloat32, 1 + 0x1p-23f), 1 + 0x1p-23f);
}

TEST(RoundToTest, IsAStoreAndALoad) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 10000; ++i) {
    const float value = std::ldexp(normal(random), i % 60 - 30);
    for (const FloatType type : kFloatTypes) {
      uint8_t bytes[4];
      StoreFloat(type, value, bytes);
      ASSERT_EQ(RoundTo(type, value), LoadFloat(type, bytes))
          << std::hexfloat << value << " as " << Name(type);
    }
  }
}

TEST(MatmulSignatureTest, DiffersInEachField) {
  const MatmulSignature base;
  MatmulSignature a = base, c = base, mode = base, rounding = base;
  a.a_type = FloatType::kFloat32;
  c.c_type = FloatType::kFloat32;
  mode.mode = ComputeMode::kA32;
  rounding.rounding = FloatType::kFloat16;
  EXPECT_EQ(base, MatmulSignature());
  for (const MatmulSignature& other : {a, c, mode, rounding}) {
    EXPECT_NE(base, other);
  }
}

}  // namespace
}  // namespace qgemm
