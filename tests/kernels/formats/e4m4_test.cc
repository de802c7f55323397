// SPDX-License-Identifier: Apache-2.0

#include "kernels/formats/e4m4.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/matrix/types.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

double RoundHalfEven(double value) {
  const double below = std::floor(value);
  const double rest = value - below;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2) == 1);
  return below + (up ? 1 : 0);
}

// The rule of docs/formats.md#e4m4 in double, from ilogb's exact exponent.
uint8_t EncodeSlowly(float value) {
  if (value <= 0) return 0;
  const double x = value;
  const int floor_log2 = std::ilogb(x);
  const int exponent = std::clamp(floor_log2 + 11, 0, 15);
  const double mantissa =
      floor_log2 + 11 <= 0
          ? RoundHalfEven(x / 0x1p-10 * 16)
          : RoundHalfEven((x / std::exp2(floor_log2) - 1) * 16);
  return exponent * 16 + std::clamp(static_cast<int>(mantissa), 0, 15);
}

double DecodeSlowly(int code) {
  const int exponent = code >> 4;
  const int mantissa = code & 15;
  if (exponent == 0) return 0x1p-10 * mantissa / 16;
  return std::exp2(exponent - 11) * (1 + mantissa / 16.0);
}

TEST(E4m4, EveryCodeSurvivesARoundTrip) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(FloatToE4m4(static_cast<float>(DecodeSlowly(code))), code);
    EXPECT_EQ(E4m4ToFloat(code), DecodeSlowly(code));
  }
}

TEST(E4m4, TiesBetweenNeighboursFollowTheRule) {
  for (int code = 0; code + 1 < 256; ++code) {
    const float tie = (DecodeSlowly(code) + DecodeSlowly(code + 1)) / 2;
    for (const float value :
         {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 100.0f)}) {
      EXPECT_EQ(FloatToE4m4(value), EncodeSlowly(value)) << value;
    }
  }
}

TEST(E4m4, MantissaDoesNotCarry) {
  EXPECT_EQ(E4m4ToFloat(FloatToE4m4(1.99f)), 1.9375f);
  EXPECT_EQ(E4m4ToFloat(FloatToE4m4(31.9f)), 31.0f);
}

TEST(E4m4, WrapsFrom32AsTheReference) {
  EXPECT_EQ(E4m4ToFloat(FloatToE4m4(32.0f)), 16.0f);
}

TEST(E4m4, NonPositiveValuesAndNanAreZero) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, -0.0f, -1.0f, -inf, std::nanf("")}) {
    EXPECT_EQ(FloatToE4m4(value), 0) << value;
  }
}

TEST(E4m4, RandomValuesFollowTheRule) {
  FreshRandom random;
  for (int i = 0; i < 100000; ++i) {
    const float value = std::exp2(random.Uniform(-30.0f, 6.0f));
    ASSERT_EQ(FloatToE4m4(value), EncodeSlowly(value)) << value;
  }
}

float ScaleFor(std::initializer_list<float> values) {
  E4m4Range range;
  for (const float value : values) range.Add(value);
  return range.TensorScale();
}

TEST(E4m4Range, IsOneWithinTheNormalRange) {
  EXPECT_EQ(ScaleFor({}), 1.0f);
  EXPECT_EQ(ScaleFor({0.0f, 31.0f, 0x1p-10f}), 1.0f);
}

TEST(E4m4Range, BringsTheLargestToAtMost31) {
  EXPECT_EQ(ScaleFor({std::nextafter(31.0f, 40.0f)}), 2.0f);
  EXPECT_EQ(ScaleFor({62.0f}), 2.0f);
  EXPECT_EQ(ScaleFor({63.0f, 1.0f}), 4.0f);
}

TEST(E4m4Range, ScalesUpWhereSmallValuesLosePrecision) {
  EXPECT_EQ(ScaleFor({31 * 0x1p-16f}), 0x1p-16f);
  EXPECT_EQ(ScaleFor({std::nextafter(31 * 0x1p-16f, 1.0f)}), 0x1p-15f);
  EXPECT_EQ(ScaleFor({1.0f, 0x1p-11f}), 0x1p-4f);
}

TEST(E4m4Range, StaysRepresentableAtBothEnds) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_LE(largest / ScaleFor({largest}), 31.0f);
  EXPECT_GT(largest / ScaleFor({largest}), 15.5f);
  EXPECT_EQ(ScaleFor({std::numeric_limits<float>::denorm_min()}), 0x1p-126f);
}

}  // namespace
}  // namespace qgemm
