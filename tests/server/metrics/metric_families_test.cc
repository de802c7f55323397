// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/metric_families.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;

std::vector<uint64_t> CountsAt(const prometheus::ClientMetric::Histogram& cut) {
  std::vector<uint64_t> counts;
  for (const auto& bucket : cut.bucket) {
    counts.push_back(bucket.cumulative_count);
  }
  return counts;
}

TEST(CutAtBoundsTest, EmptyHistogramHasEveryBoundAndInfinity) {
  const auto cut = CutAtBounds(Histogram(), {{1, 10}, 1});
  EXPECT_THAT(CountsAt(cut), ElementsAre(0, 0, 0));
  EXPECT_EQ(cut.bucket[1].upper_bound, 10);
  EXPECT_EQ(cut.bucket[2].upper_bound, std::numeric_limits<double>::infinity());
  EXPECT_EQ(cut.sample_count, 0);
  EXPECT_EQ(cut.sample_sum, 0);
}

TEST(CutAtBoundsTest, CountsAValueAtItsBoundAndAllAboveIt) {
  Histogram histogram;
  for (const int64_t value : {0, 1, 2, 10, 11, 500}) histogram.Record(value);
  EXPECT_THAT(CountsAt(CutAtBounds(histogram, {{1, 10, 100}, 1})),
              ElementsAre(2, 4, 5, 6));
}

TEST(CutAtBoundsTest, ScalesBoundsAndSum) {
  Histogram histogram;
  histogram.Record(500);
  histogram.Record(1500);
  const auto cut = CutAtBounds(histogram, {{0.5, 1.0, 1.5}, 1000});
  EXPECT_THAT(CountsAt(cut), ElementsAre(1, 1, 2, 2));
  EXPECT_EQ(cut.sample_sum, 2.0);
}

TEST(CutAtBoundsTest, CountsAreThoseOfTheValuesToABucketAtTheBound) {
  RandomGenerator random(FreshSeed());
  Histogram histogram;
  std::vector<int64_t> values(1000);
  for (int64_t& value : values) {
    value = RandomInt(0, int64_t{1} << RandomInt(0, 40, &random), &random);
    histogram.Record(value);
  }
  std::vector<double> bounds;
  for (double bound = 1; bound < 0x1p41; bound *= 3) bounds.push_back(bound);
  const auto cut = CutAtBounds(histogram, {bounds, 1});
  for (size_t i = 0; i < bounds.size(); ++i) {
    const auto up_to = [&](double bound) {
      return static_cast<uint64_t>(std::count_if(
          values.begin(), values.end(),
          [&](int64_t value) { return static_cast<double>(value) <= bound; }));
    };
    EXPECT_GE(cut.bucket[i].cumulative_count, up_to(bounds[i])) << bounds[i];
    EXPECT_LE(cut.bucket[i].cumulative_count,
              up_to(bounds[i] * (1 + 1.0 / 1024)))
        << bounds[i];
  }
}

TEST(LockedHistogramTest, LosesNoValueUnderConcurrency) {
  constexpr int kThreads = 4;
  constexpr int kValues = 1000;
  LockedHistogram histogram(100);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&histogram] {
      for (int i = 0; i < kValues; ++i) {
        histogram.Record(i);  // some above what it was made for
        if (i % 100 == 0) histogram.Snapshot();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Histogram snapshot = histogram.Snapshot();
  EXPECT_EQ(snapshot.count(), kThreads * kValues);
  EXPECT_EQ(snapshot.max(), kValues - 1);
}

}  // namespace
}  // namespace qgemm
