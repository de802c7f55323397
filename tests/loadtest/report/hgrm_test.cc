// SPDX-License-Identifier: Apache-2.0
//
// The output against an example computed by hand.

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/report/report_formats.h"

namespace qgemm::loadtest {
namespace {

// Levels go 0, 10, …, 50 (five to the first half), 55, …, 75 (five to the
// second), 77.5. The four values reach 25, 50, 75 and 100 %. Their mean is 250,
// the standard deviation sqrt((150² + 50² + 50² + 150²) / 4) = 111.803.
constexpr char kFourValues[] =
    "       Value     Percentile TotalCount 1/(1-Percentile)\n"
    "\n"
    "     100.000 0.000000000000          1           1.00\n"
    "     100.000 0.100000000000          1           1.11\n"
    "     100.000 0.200000000000          1           1.25\n"
    "     200.000 0.300000000000          2           1.43\n"
    "     200.000 0.400000000000          2           1.67\n"
    "     200.000 0.500000000000          2           2.00\n"
    "     300.000 0.550000000000          3           2.22\n"
    "     300.000 0.600000000000          3           2.50\n"
    "     300.000 0.650000000000          3           2.86\n"
    "     300.000 0.700000000000          3           3.33\n"
    "     300.000 0.750000000000          3           4.00\n"
    "     400.000 0.775000000000          4           4.44\n"
    "     400.000 1.000000000000          4\n"
    "#[Mean    =      250.000, StdDeviation   =      111.803]\n"
    "#[Max     =      400.000, Total count    =            4]\n"
    "#[Buckets =            1, SubBuckets     =         2048]\n";

TEST(Hgrm, IsTheExampleComputedByHand) {
  Histogram histogram;
  for (int64_t value : {100, 200, 300, 400}) histogram.Record(value);
  EXPECT_EQ(FormatHgrm(histogram, 1), kFourValues);
}

TEST(Hgrm, DividesByTheUnitAndKeepsTheMaximum) {
  Histogram histogram;
  // Its bucket is 3,000,000 to 3,002,047 wide.
  histogram.Record(3'000'500);
  const std::string text = FormatHgrm(histogram, 1000);
  EXPECT_THAT(text, testing::HasSubstr("\n    3000.500 1.000000000000"));
  EXPECT_THAT(text, testing::HasSubstr("#[Max     =     3000.500,"));
  // 2048 << 11 is the first power of two above it.
  EXPECT_THAT(text, testing::HasSubstr("#[Buckets =           12,"));
}

TEST(Hgrm, AnEmptyHistogramHasNoRows) {
  EXPECT_EQ(FormatHgrm(Histogram(), 1),
            "       Value     Percentile TotalCount 1/(1-Percentile)\n"
            "\n"
            "#[Mean    =        0.000, StdDeviation   =        0.000]\n"
            "#[Max     =        0.000, Total count    =            0]\n"
            "#[Buckets =            1, SubBuckets     =         2048]\n");
}

TEST(Hgrm, HasFiveRowsAHalving) {
  Histogram histogram;
  for (int64_t value = 0; value < 1024; ++value) histogram.Record(value);
  const std::string text = FormatHgrm(histogram, 1);
  // 99.90234375 % are reached by the last but one value: ten halvings of five,
  // that of 0 % and of 100 % apart, and the last value's own row.
  const int lines =
      static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  EXPECT_EQ(lines, 2 + 1 + 10 * 5 + 1 + 1 + 3) << text;
}

}  // namespace
}  // namespace qgemm::loadtest
