// SPDX-License-Identifier: Apache-2.0
//
// LatencyRecorder against sorted lists of the same durations.

#include "client/loadtest/latency_recorder.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

// Durations over nine decades, so that every kind of bucket is used.
std::vector<int64_t> RandomNanoseconds(int count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(0.0, 9.0);
  std::vector<int64_t> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(static_cast<int64_t>(std::pow(10.0, exponent(random))));
  }
  return values;
}

LatencyRecorder RecorderOf(const std::vector<int64_t>& values) {
  LatencyRecorder recorder;
  for (int64_t ns : values) recorder.Record(absl::Nanoseconds(ns));
  return recorder;
}

TEST(LatencyRecorder, IsZeroWhenEmpty) {
  const LatencyRecorder recorder;
  EXPECT_EQ(recorder.count(), 0);
  EXPECT_EQ(recorder.mean(), absl::ZeroDuration());
  EXPECT_EQ(recorder.Percentile(50), absl::ZeroDuration());
}

TEST(LatencyRecorder, IsExactBelowTheFirstOctave) {
  std::vector<int64_t> values;
  for (int64_t ns = 1; ns <= 2000; ++ns) values.push_back(ns);
  const LatencyRecorder recorder = RecorderOf(values);
  for (int percent : {1, 50, 90, 99, 100}) {
    EXPECT_EQ(recorder.Percentile(percent), absl::Nanoseconds(20 * percent));
  }
}

TEST(LatencyRecorder, PercentilesLieWithinABucketOfTheSortedList) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::vector<int64_t> values = RandomNanoseconds(5000, seed);
  const LatencyRecorder recorder = RecorderOf(values);
  std::sort(values.begin(), values.end());
  for (double percent : {0.1, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const size_t rank =
        static_cast<size_t>(std::ceil(percent / 100.0 * values.size()));
    const int64_t exact = values[rank - 1];
    const int64_t got = absl::ToInt64Nanoseconds(recorder.Percentile(percent));
    EXPECT_GE(got, exact) << percent;
    // A bucket is at most 1/1024 of its smallest value wide.
    EXPECT_LE(got, exact + exact / 1024) << percent;
  }
}

TEST(LatencyRecorder, ExtremesAndMeanAreExact) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  const std::vector<int64_t> values = RandomNanoseconds(1000, seed);
  const LatencyRecorder recorder = RecorderOf(values);
  int64_t sum = 0;
  for (int64_t ns : values) sum += ns;
  EXPECT_EQ(recorder.min(),
            absl::Nanoseconds(*std::min_element(values.begin(), values.end())));
  EXPECT_EQ(recorder.max(),
            absl::Nanoseconds(*std::max_element(values.begin(), values.end())));
  // The sum is below 2^53, so exact in double; a Duration counts in steps of
  // a quarter nanosecond.
  EXPECT_NEAR(absl::ToDoubleNanoseconds(recorder.mean()),
              static_cast<double>(sum) / values.size(), 0.25);
}

TEST(LatencyRecorder, MergeCountsBothSides) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  const std::vector<int64_t> left = RandomNanoseconds(300, seed);
  const std::vector<int64_t> right = RandomNanoseconds(700, seed + 1);
  std::vector<int64_t> both = left;
  both.insert(both.end(), right.begin(), right.end());
  LatencyRecorder merged = RecorderOf(left);
  merged.Merge(RecorderOf(right));
  const LatencyRecorder expected = RecorderOf(both);
  EXPECT_EQ(merged.count(), expected.count());
  EXPECT_EQ(merged.min(), expected.min());
  EXPECT_EQ(merged.max(), expected.max());
  for (int percent = 0; percent <= 100; percent += 5) {
    EXPECT_EQ(merged.Percentile(percent), expected.Percentile(percent));
  }
}

TEST(LatencyRecorder, ClampsWhatCannotBeALatency) {
  LatencyRecorder recorder;
  recorder.Record(-absl::Seconds(1));
  recorder.Record(absl::InfiniteDuration());
  EXPECT_EQ(recorder.min(), absl::ZeroDuration());
  EXPECT_GT(recorder.max(), absl::Hours(24 * 365 * 100));
}

}  // namespace
}  // namespace qgemm
