// SPDX-License-Identifier: Apache-2.0
//
// Histogram against sorted lists of the same values.

#include "base/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

// Values over nine decades, so that every kind of bucket is used.
std::vector<int64_t> RandomValues(int count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(0.0, 9.0);
  std::vector<int64_t> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(static_cast<int64_t>(std::pow(10.0, exponent(random))));
  }
  return values;
}

Histogram HistogramOf(const std::vector<int64_t>& values) {
  Histogram histogram;
  for (int64_t value : values) histogram.Record(value);
  return histogram;
}

class HistogramTest : public testing::Test {
 protected:
  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_F(HistogramTest, IsZeroWhenEmpty) {
  const Histogram histogram;
  EXPECT_TRUE(histogram.empty());
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.standard_deviation(), 0);
  EXPECT_EQ(histogram.Percentile(50), 0);
  EXPECT_EQ(histogram.CountUpTo(100), 0);
}

TEST_F(HistogramTest, IsExactBelowTheFirstOctave) {
  std::vector<int64_t> values;
  for (int64_t value = 1; value <= 2000; ++value) values.push_back(value);
  const Histogram histogram = HistogramOf(values);
  for (int percent : {1, 50, 90, 99, 100}) {
    EXPECT_EQ(histogram.Percentile(percent), 20 * percent);
    EXPECT_EQ(histogram.CountUpTo(20 * percent), 20 * percent);
  }
}

TEST_F(HistogramTest, ARankThatIsWholeIsNotRoundedUp) {
  Histogram histogram;
  for (int64_t value = 1; value <= 1000; ++value) histogram.Record(value);
  EXPECT_EQ(histogram.Percentile(99.9), 999);
  EXPECT_EQ(histogram.Percentile(100), 1000);
}

TEST_F(HistogramTest, PercentilesLieWithinABucketOfTheSortedList) {
  std::vector<int64_t> values = RandomValues(5000, seed_);
  const Histogram histogram = HistogramOf(values);
  std::sort(values.begin(), values.end());
  for (double percent : {0.1, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    // In tenths of a percent, so that nothing is rounded.
    const size_t tenths = std::lround(10 * percent) * values.size();
    const size_t rank = (tenths + 999) / 1000;
    const int64_t exact = values[rank - 1];
    const int64_t got = histogram.Percentile(percent);
    EXPECT_GE(got, exact) << percent;
    // A bucket is at most 1/1024 of its smallest value wide.
    EXPECT_LE(got, exact + exact / 1024) << percent;
  }
}

TEST_F(HistogramTest, ExtremesAndSumAreExact) {
  const std::vector<int64_t> values = RandomValues(1000, seed_);
  const Histogram histogram = HistogramOf(values);
  double sum = 0;  // below 2^53, so exact
  double squares = 0;
  for (int64_t value : values) sum += static_cast<double>(value);
  const double mean = sum / values.size();
  for (int64_t value : values) {
    squares += (static_cast<double>(value) - mean) *
               (static_cast<double>(value) - mean);
  }
  EXPECT_EQ(histogram.min(), *std::min_element(values.begin(), values.end()));
  EXPECT_EQ(histogram.max(), *std::max_element(values.begin(), values.end()));
  EXPECT_EQ(histogram.sum(), sum);
  // A value moves by at most half a bucket, 1/2048 of itself.
  const double root_mean_square =
      std::sqrt(squares / values.size() + mean * mean);
  EXPECT_NEAR(histogram.standard_deviation(),
              std::sqrt(squares / values.size()), root_mean_square / 1024);
}

TEST_F(HistogramTest, BucketsHoldEveryValueOnceInOrder) {
  const std::vector<int64_t> values = RandomValues(2000, seed_);
  const Histogram histogram = HistogramOf(values);
  int64_t above = -1;
  int64_t total = 0;
  histogram.ForEachBucket([&](const Histogram::Bucket& bucket) {
    EXPECT_GT(bucket.lowest, above);
    above = bucket.highest;
    const auto inside = [&](int64_t value) {
      return value >= bucket.lowest && value <= bucket.highest;
    };
    EXPECT_EQ(std::count_if(values.begin(), values.end(), inside),
              bucket.count);
    total += bucket.count;
    EXPECT_EQ(histogram.CountUpTo(bucket.highest), total);
  });
  EXPECT_EQ(total, 2000);
}

TEST_F(HistogramTest, MergeCountsBothSides) {
  const std::vector<int64_t> left = RandomValues(300, seed_);
  const std::vector<int64_t> right = RandomValues(700, seed_ + 1);
  std::vector<int64_t> both = left;
  both.insert(both.end(), right.begin(), right.end());
  Histogram merged = HistogramOf(left);
  merged.Merge(HistogramOf(right));
  merged.Merge(Histogram());
  const Histogram expected = HistogramOf(both);
  EXPECT_EQ(merged.count(), expected.count());
  EXPECT_EQ(merged.min(), expected.min());
  EXPECT_EQ(merged.max(), expected.max());
  for (int percent = 0; percent <= 100; percent += 5) {
    EXPECT_EQ(merged.Percentile(percent), expected.Percentile(percent));
  }
}

TEST_F(HistogramTest, ACountIsThatManyRecords) {
  Histogram once;
  once.Record(7000, 3);
  once.Record(9, 0);
  const Histogram thrice = HistogramOf({7000, 7000, 7000});
  EXPECT_EQ(once.count(), 3);
  EXPECT_EQ(once.min(), thrice.min());
  EXPECT_EQ(once.sum(), thrice.sum());
}

TEST_F(HistogramTest, ClearForgets) {
  Histogram histogram = HistogramOf({5, 70000});
  histogram.Clear();
  EXPECT_TRUE(histogram.empty());
  histogram.Record(9);
  EXPECT_EQ(histogram.min(), 9);
  EXPECT_EQ(histogram.max(), 9);
  EXPECT_EQ(histogram.Percentile(100), 9);
}

TEST_F(HistogramTest, ClampsWhatItCannotHold) {
  Histogram histogram(1000);
  histogram.Record(-1);
  histogram.Record(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), int64_t{1} << 62);
}

}  // namespace
}  // namespace qgemm
