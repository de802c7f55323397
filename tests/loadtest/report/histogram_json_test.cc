// SPDX-License-Identifier: Apache-2.0
//
// Histograms through JSON, and what is refused.

#include "loadtest/report/histogram_json.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/loadtest/report/random_report.h"

namespace qgemm {
namespace {

using testing::HasSubstr;

std::vector<std::vector<int64_t>> BucketsOf(const Histogram& histogram) {
  std::vector<std::vector<int64_t>> buckets;
  histogram.ForEachBucket([&](const Histogram::Bucket& bucket) {
    buckets.push_back({bucket.lowest, bucket.highest, bucket.count});
  });
  return buckets;
}

std::string ErrorOf(const std::string& text) {
  const ReportJson json = ReportJson::parse(text, nullptr, false);
  return std::string(HistogramFromJson(json, "lag").status().message());
}

class HistogramJsonTest : public testing::Test {
 protected:
  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_F(HistogramJsonTest, GivesBackBucketsAndExtremes) {
  RandomReport random(seed_);
  for (int i = 0; i < 100; ++i) {
    const Histogram wrote = random.Values();
    const auto read = HistogramFromJson(HistogramJson(wrote), "");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(BucketsOf(*read), BucketsOf(wrote));
    EXPECT_EQ(read->count(), wrote.count());
    EXPECT_EQ(read->min(), wrote.min());
    EXPECT_EQ(read->max(), wrote.max());
    for (double percent : {0.0, 1.0, 50.0, 99.0, 99.9, 100.0}) {
      EXPECT_EQ(read->Percentile(percent), wrote.Percentile(percent));
    }
  }
}

TEST_F(HistogramJsonTest, GivesBackTheMeanToHalfOfOne) {
  RandomReport random(seed_);
  for (int i = 0; i < 100; ++i) {
    const Histogram wrote = random.Values();
    const auto read = HistogramFromJson(HistogramJson(wrote), "");
    ASSERT_TRUE(read.ok()) << read.status();
    // Values are whole, so each is off by half of one at most; and sums of up
    // to 200 * 6 numbers below 1e12, which are exact below 2^53.
    EXPECT_NEAR(read->mean(), wrote.mean(), 0.5 + 1e-3);
  }
}

TEST_F(HistogramJsonTest, HoldsTheLargestValue) {
  Histogram wrote;
  wrote.Record(std::numeric_limits<int64_t>::max(), 3);
  const auto read = HistogramFromJson(HistogramJson(wrote), "");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->max(), wrote.max());
  EXPECT_EQ(read->count(), 3);
}

TEST_F(HistogramJsonTest, SummaryIsInUnits) {
  Histogram values;
  for (int64_t value = 1; value <= 1000; ++value) values.Record(value);
  const ReportJson json = SummaryJson(values, 10);
  EXPECT_EQ(json["count"], 1000);
  EXPECT_EQ(json["min"], 0.1);
  EXPECT_EQ(json["mean"], 50.05);
  EXPECT_EQ(json["p50"], 50.0);
  EXPECT_EQ(json["p99"], 99.0);
  EXPECT_EQ(json["p99.99"], 100.0);
  EXPECT_EQ(json["max"], 100.0);
}

TEST_F(HistogramJsonTest, RefusesWhatIsNoHistogram) {
  EXPECT_THAT(ErrorOf("7"), HasSubstr("lag: must be a histogram, is number"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("lag.min: is missing"));
  EXPECT_THAT(ErrorOf(R"({"min": -1})"), HasSubstr("lag.min: must be a whole"));
  EXPECT_THAT(ErrorOf(R"({"min": 18446744073709551615})"),
              HasSubstr("lag.min: must be a whole"));
  EXPECT_THAT(ErrorOf(R"({"min": 0, "max": 0, "sum": "0"})"),
              HasSubstr("lag.sum: must be a number"));
}

TEST_F(HistogramJsonTest, RefusesBucketsThatCannotBe) {
  const auto error = [](const std::string& buckets) {
    return ErrorOf(R"({"min": 5, "max": 9, "sum": 14, "buckets": )" + buckets +
                   "}");
  };
  EXPECT_EQ(error("[[5, 5, 1], [9, 9, 1]]"), "");
  EXPECT_THAT(error("{}"), HasSubstr("lag.buckets: must be an array"));
  EXPECT_THAT(error("[[5, 5]]"), HasSubstr("lag.buckets[0]: must be [lowest"));
  EXPECT_THAT(error("[[5, 5, -1]]"), HasSubstr("count 1 to"));
  EXPECT_THAT(error("[[6, 5, 1]]"), HasSubstr("lag.buckets[0]"));
  EXPECT_THAT(error("[[5, 6, 1], [6, 9, 1]]"),
              HasSubstr("lag.buckets[1]: is not above"));
  EXPECT_THAT(error("[[6, 9, 2]]"), HasSubstr("lag.min: 5 is not in"));
  EXPECT_THAT(error("[[5, 8, 2]]"), HasSubstr("lag.max: 9 is not in"));
  EXPECT_THAT(error("[[5, 5, 9007199254740992], [9, 9, 1]]"),
              HasSubstr("lag.buckets: counts are above"));
}

}  // namespace
}  // namespace qgemm
