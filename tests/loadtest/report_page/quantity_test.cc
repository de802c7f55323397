// SPDX-License-Identifier: Apache-2.0
//
// Rounding, units and what is not a number.

#include "loadtest/report/page/quantity.h"

#include <limits>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(DurationText, HasThreeDigitsInTheUnitThatFits) {
  EXPECT_EQ(DurationText(0), "0 ns");
  EXPECT_EQ(DurationText(812), "812 ns");
  EXPECT_EQ(DurationText(1240), "1.24 µs");
  EXPECT_EQ(DurationText(41'200), "41.2 µs");
  EXPECT_EQ(DurationText(412'000), "412 µs");
  EXPECT_EQ(DurationText(3.5e9), "3.50 s");
}

TEST(DurationText, RoundsIntoTheNextUnitAndNeverWritesAThousand) {
  EXPECT_EQ(DurationText(999'600), "1.00 ms");
  EXPECT_EQ(DurationText(999'400), "999 µs");
  EXPECT_EQ(DurationText(9'996), "10.0 µs");
}

TEST(CountText, GroupsDigitsByThousands) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(12345), "12,345");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(CountText(-1234), "−1,234");
}

TEST(CountText, KeepsThreeDigitsOfFractions) {
  EXPECT_EQ(CountText(3.14159), "3.14");
  EXPECT_EQ(CountText(31.4159), "31.4");
  EXPECT_EQ(CountText(3141.59), "3,142");
}

TEST(CountText, WritesWhatIsHugeInPowersOfTen) {
  EXPECT_EQ(CountText(1e300), "1.00e+300");
}

TEST(Texts, WriteADashForWhatIsNotFinite) {
  for (const double value : {kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(DurationText(value), "–");
    EXPECT_EQ(CountText(value), "–");
    EXPECT_EQ(BytesText(value), "–");
    EXPECT_EQ(PercentText(value), "–");
    EXPECT_EQ(MicrosecondsText(value), "–");
    EXPECT_EQ(TickText(value, Quantity::kCount, 1), "–");
  }
}

TEST(BytesText, CountsInPowersOf1024) {
  EXPECT_EQ(BytesText(1024), "1.00 KiB");
  EXPECT_EQ(BytesText(1000), "1,000 B");
  EXPECT_EQ(BytesText(28 * 1024.0 * 1024.0), "28.0 MiB");
}

TEST(MicrosecondsText, HasOneDecimalForColumns) {
  EXPECT_EQ(MicrosecondsText(1'240'360), "1,240.4");
}

TEST(TickText, UsesTheUnitOfTheLargestValue) {
  EXPECT_EQ(TickText(500'000, Quantity::kNanoseconds, 2e6), "0.5 ms");
  EXPECT_EQ(TickText(0, Quantity::kNanoseconds, 2e6), "0");
  EXPECT_EQ(TickText(-1, Quantity::kSeconds, 10), "−1 s");
  EXPECT_EQ(TickText(20, Quantity::kPercent, 100), "20 %");
  EXPECT_EQ(TickText(250'000, Quantity::kCount, 1e6), "250k");
  EXPECT_EQ(TickText(50'000, Quantity::kCount, 1e6), "50,000");
}

}  // namespace
}  // namespace qgemm
