// SPDX-License-Identifier: Apache-2.0
//
// The 16-bit float conversions against tables built from the formats'
// definitions and a search for the nearest entry.

#include "base/float16.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

// A 16-bit IEEE-like format by its definition.
struct SmallFormat {
  int mantissa_bits;
  int bias;
  uint16_t infinity_code;

  // The magnitude of a code below infinity; at infinity, the value that the
  // next finite code would have, which is where rounding overflows to.
  double Magnitude(uint16_t code) const {
    const int exponent = code >> mantissa_bits;
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    const int leading = exponent == 0 ? 0 : 1 << mantissa_bits;
    return std::ldexp(leading + mantissa,
                      std::max(exponent, 1) - bias - mantissa_bits);
  }

  std::vector<double> Magnitudes() const {
    std::vector<double> magnitudes;
    for (int code = 0; code <= infinity_code; ++code) {
      magnitudes.push_back(Magnitude(static_cast<uint16_t>(code)));
    }
    return magnitudes;
  }
};

constexpr SmallFormat kHalf = {10, 15, 0x7c00};
constexpr SmallFormat kBfloat = {7, 127, 0x7f80};

// The code nearest to `value`, ties to the even code, by search.
uint16_t SlowRound(const std::vector<double>& magnitudes, float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= magnitudes.back()) {
    return static_cast<uint16_t>(sign | (magnitudes.size() - 1));
  }
  const auto above =
      std::upper_bound(magnitudes.begin(), magnitudes.end(), magnitude);
  const size_t high = above - magnitudes.begin();
  const size_t low = high - 1;
  const double to_low = magnitude - magnitudes[low];
  const double to_high = magnitudes[high] - magnitude;
  const bool take_low = to_low < to_high || (to_low == to_high && low % 2 == 0);
  return static_cast<uint16_t>(sign | (take_low ? low : high));
}

// Every code's value, every midpoint between codes, and the floats beside
// them, of both signs; then random bit patterns without NaN.
std::vector<float> Probes(const SmallFormat& format, uint64_t seed) {
  std::vector<float> probes;
  const auto add_with_neighbours = [&probes](double centre) {
    const float value = static_cast<float>(centre);
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float probe : {value, std::nextafter(value, infinity),
                              std::nextafter(value, 0.0f)}) {
      probes.push_back(probe);
      probes.push_back(-probe);
    }
  };
  for (int code = 0; code < format.infinity_code; ++code) {
    const double low = format.Magnitude(static_cast<uint16_t>(code));
    const double high = format.Magnitude(static_cast<uint16_t>(code + 1));
    add_with_neighbours(low);
    add_with_neighbours((low + high) / 2);
  }
  std::mt19937 random(static_cast<uint32_t>(seed));
  while (probes.size() % 1000000 != 0) {
    const float value = FloatFromBits(random());
    if (!std::isnan(value)) probes.push_back(value);
  }
  return probes;
}

TEST(Float16Test, EveryFiniteHalfHasItsDefinedValue) {
  for (int code = 0; code < kHalf.infinity_code; ++code) {
    const double magnitude = kHalf.Magnitude(static_cast<uint16_t>(code));
    ASSERT_EQ(Float16ToFloat(static_cast<uint16_t>(code)), magnitude) << code;
    const float negative = Float16ToFloat(static_cast<uint16_t>(code | 0x8000));
    ASSERT_EQ(negative, -magnitude) << code;
    ASSERT_TRUE(std::signbit(negative)) << code;
  }
}

TEST(Float16Test, EveryFiniteBfloatHasItsDefinedValue) {
  for (int code = 0; code < kBfloat.infinity_code; ++code) {
    const double magnitude = kBfloat.Magnitude(static_cast<uint16_t>(code));
    ASSERT_EQ(BFloat16ToFloat(static_cast<uint16_t>(code)), magnitude) << code;
    const float negative =
        BFloat16ToFloat(static_cast<uint16_t>(code | 0x8000));
    ASSERT_EQ(negative, -magnitude) << code;
    ASSERT_TRUE(std::signbit(negative)) << code;
  }
}

TEST(Float16Test, AllHalvesSurviveTheRoundTrip) {
  for (uint32_t code = 0; code <= 0xffff; ++code) {
    const auto half = static_cast<uint16_t>(code);
    const bool is_nan = (half & 0x7fff) > kHalf.infinity_code;
    const uint16_t expected = is_nan ? half | 0x200 : half;  // made quiet
    ASSERT_EQ(FloatToFloat16(Float16ToFloat(half)), expected) << half;
  }
}

TEST(Float16Test, AllBfloatsSurviveTheRoundTrip) {
  for (uint32_t code = 0; code <= 0xffff; ++code) {
    const auto bfloat = static_cast<uint16_t>(code);
    const bool is_nan = (bfloat & 0x7fff) > kBfloat.infinity_code;
    const uint16_t expected = is_nan ? bfloat | 0x40 : bfloat;  // made quiet
    ASSERT_EQ(FloatToBFloat16(BFloat16ToFloat(bfloat)), expected) << bfloat;
  }
}

TEST(Float16Test, InfinitiesAndNansKeepTheirKind) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Float16ToFloat(0x7c00), infinity);
  EXPECT_EQ(Float16ToFloat(0xfc00), -infinity);
  EXPECT_TRUE(std::isnan(Float16ToFloat(0x7c01)));
  EXPECT_EQ(FloatToFloat16(infinity), 0x7c00);
  EXPECT_EQ(FloatToFloat16(-infinity), 0xfc00);
  EXPECT_EQ(FloatToBFloat16(-infinity), 0xff80);
  // A NaN whose payload is only in the bits that are cut off stays one.
  EXPECT_TRUE(
      std::isnan(Float16ToFloat(FloatToFloat16(FloatFromBits(0x7f800001u)))));
  EXPECT_TRUE(
      std::isnan(BFloat16ToFloat(FloatToBFloat16(FloatFromBits(0x7f800001u)))));
}

TEST(Float16Test, FloatRoundsToTheNearestHalfTiesToEven) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const std::vector<double> magnitudes = kHalf.Magnitudes();
  for (const float probe : Probes(kHalf, seed)) {
    ASSERT_EQ(FloatToFloat16(probe), SlowRound(magnitudes, probe))
        << std::hexfloat << probe;
  }
}

TEST(Float16Test, FloatRoundsToTheNearestBfloatTiesToEven) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const std::vector<double> magnitudes = kBfloat.Magnitudes();
  for (const float probe : Probes(kBfloat, seed)) {
    ASSERT_EQ(FloatToBFloat16(probe), SlowRound(magnitudes, probe))
        << std::hexfloat << probe;
  }
}

}  // namespace
}  // namespace qgemm
