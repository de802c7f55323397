// SPDX-License-Identifier: Apache-2.0
//
// Rates over time: the closed forms against sums of trapezoids, the inverse
// against the function, and what is refused.

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "loadtest/schedule/arrivals.h"

namespace qgemm::loadtest {
namespace {

RateProfile Parse(absl::string_view text) {
  const absl::StatusOr<RateProfile> profile = ParseRateProfile(text);
  EXPECT_TRUE(profile.ok()) << profile.status();
  return profile.value_or(RateProfile::Constant(1));
}

double RateAt(const RateProfile& profile, double seconds) {
  return profile.RateAt(absl::Seconds(seconds));
}

double Until(const RateProfile& profile, double seconds) {
  return profile.ArrivalsUntil(absl::Seconds(seconds));
}

// Random segments between these rates, of 0.1 to 10 s.
constexpr double kLowest = 1;
constexpr double kHighest = 1e4;
constexpr int kSegments = 6;

struct RandomSegment {
  double first_rate;
  double last_rate;
  double seconds;
};

class RandomProfile : public testing::Test {
 protected:
  RandomProfile() {
    std::uniform_real_distribution<double> rate(kLowest, kHighest);
    std::uniform_int_distribution<int> tenths(1, 100);
    std::vector<std::string> texts;
    for (int i = 0; i < kSegments; ++i) {
      // By way of text, so that both sides have the same doubles.
      const std::string first = absl::StrCat(rate(random_));
      const std::string last = absl::StrCat(rate(random_));
      const std::string seconds = absl::StrCat(tenths(random_) / 10.0);
      segments_.push_back(
          {std::stod(first), std::stod(last), std::stod(seconds)});
      texts.push_back(absl::StrCat(first, "..", last, ":", seconds, "s"));
      total_seconds_ += segments_.back().seconds;
    }
    text_ = absl::StrJoin(texts, ",");
  }

  // The trapezoid below the rate is exact: it is linear in each segment.
  double TrapezoidsUntil(double seconds) const {
    double sum = 0;
    for (const RandomSegment& segment : segments_) {
      const double part = std::clamp(seconds, 0.0, segment.seconds);
      const double rate =
          segment.first_rate +
          (segment.last_rate - segment.first_rate) * part / segment.seconds;
      sum += part * (segment.first_rate + rate) / 2;
      seconds -= segment.seconds;
    }
    return sum + std::max(seconds, 0.0) * segments_.back().last_rate;
  }

  double RandomOffset() {
    return std::uniform_real_distribution<double>(0,
                                                  total_seconds_ + 5)(random_);
  }

  // Less than 16 roundings a segment, each of at most the highest sum.
  double ArrivalsTolerance() const {
    return 16 * kSegments * std::numeric_limits<double>::epsilon() * kHighest *
           (total_seconds_ + 5);
  }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  std::mt19937_64 random_{seed_};
  std::vector<RandomSegment> segments_;
  std::string text_;
  double total_seconds_ = 0;
};

TEST_F(RandomProfile, IntegratesItsRate) {
  const RateProfile profile = Parse(text_);
  for (int i = 0; i < 1000; ++i) {
    const double seconds = RandomOffset();
    // Offsets are whole quarters of a nanosecond.
    EXPECT_NEAR(Until(profile, seconds), TrapezoidsUntil(seconds),
                ArrivalsTolerance() + 0.25e-9 * kHighest)
        << seconds;
  }
}

TEST_F(RandomProfile, InvertsItsIntegral) {
  const RateProfile profile = Parse(text_);
  // The square root's argument cancels by at most the ratio of the rates,
  // which dividing by the lowest rate covers too.
  const double tolerance = 0.25e-9 + ArrivalsTolerance() / kLowest;
  for (int i = 0; i < 1000; ++i) {
    const double seconds = RandomOffset();
    const absl::Duration back = profile.OffsetOf(Until(profile, seconds));
    EXPECT_NEAR(absl::ToDoubleSeconds(back), seconds, tolerance);
  }
}

TEST_F(RandomProfile, ItsInverseAscends) {
  const RateProfile profile = Parse(text_);
  const double step = Until(profile, total_seconds_ + 5) / 10000;
  for (int i = 1; i <= 10000; ++i) {
    EXPECT_GT(profile.OffsetOf(step * i), profile.OffsetOf(step * (i - 1)));
  }
}

TEST(RateProfile, APlainRateHoldsForEver) {
  const RateProfile profile = Parse("2000");
  EXPECT_EQ(RateAt(profile, 0), 2000);
  EXPECT_EQ(RateAt(profile, 1e6), 2000);
  EXPECT_EQ(Until(profile, 2.5), 5000);
  EXPECT_EQ(profile.OffsetOf(5000), absl::Seconds(2.5));
}

TEST(RateProfile, StepsChangeWhereTheyBegin) {
  const RateProfile profile = Parse("500:0.1s,1000:0.2s,2000:10s");
  EXPECT_EQ(profile.RateAt(absl::Milliseconds(100) - absl::Nanoseconds(1)),
            500);
  EXPECT_EQ(profile.RateAt(absl::Milliseconds(100)), 1000);
  EXPECT_EQ(profile.RateAt(absl::Milliseconds(300)), 2000);
}

TEST(RateProfile, TheLastRateHolds) {
  EXPECT_EQ(RateAt(Parse("100:5s,200:5s"), 1000), 200);
  EXPECT_EQ(RateAt(Parse("100..5000:60s"), 1000), 5000);
  EXPECT_EQ(Until(Parse("100..300:10s"), 11), 2000 + 300);
}

TEST(RateProfile, ARampIsLinear) {
  const RateProfile profile = Parse("100..500:4s");
  EXPECT_EQ(RateAt(profile, 0), 100);
  EXPECT_EQ(RateAt(profile, 1), 200);
  EXPECT_EQ(RateAt(profile, 3), 400);
  // 100 t + 50 t^2
  EXPECT_EQ(Until(profile, 2), 400);
  EXPECT_EQ(profile.OffsetOf(400), absl::Seconds(2));
}

TEST(RateProfile, NothingArrivesBeforeTheStart) {
  const RateProfile profile = Parse("100..200:10s");
  EXPECT_EQ(RateAt(profile, -1), 0);
  EXPECT_EQ(Until(profile, -1), 0);
  EXPECT_EQ(profile.OffsetOf(0), absl::ZeroDuration());
}

TEST(RateProfile, AveragesOverAnInterval) {
  const RateProfile profile = Parse("100:10s,100..300:10s");
  EXPECT_EQ(profile.MeanRate(absl::ZeroDuration(), absl::Seconds(10)), 100);
  EXPECT_EQ(profile.MeanRate(absl::Seconds(10), absl::Seconds(20)), 200);
  EXPECT_EQ(profile.MeanRate(absl::ZeroDuration(), absl::Seconds(20)), 150);
}

struct BadText {
  const char* text;
  const char* names;  // what the message must hold
};

class BadRate : public testing::TestWithParam<BadText> {};

TEST_P(BadRate, IsRefusedBySegment) {
  const absl::Status status = ParseRateProfile(GetParam().text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), GetParam().names)) << status;
}

INSTANTIATE_TEST_SUITE_P(
    ParseRateProfile, BadRate,
    testing::Values(BadText{"", "segment 1 \"\""},
                    BadText{"x", "segment 1 \"x\""},
                    BadText{"0", "0.001 to 1e+07"}, BadText{"0.0009", "0.001"},
                    BadText{"1.1e7", "1e+07"}, BadText{"-5", "\"-5\""},
                    BadText{"nan", "\"nan\""}, BadText{"inf", "\"inf\""},
                    BadText{"10:", "\"10:\""}, BadText{"10:5", "\"10:5\""},
                    BadText{"10:0s", "above 0"}, BadText{"10:-1s", "above 0"},
                    BadText{"10:inf", "at most a year"},
                    BadText{"10:9000h", "at most a year"},
                    BadText{"10:5000h,20:5000h", "segment 2"},
                    BadText{"10:5s,", "segment 2 \"\""},
                    BadText{"10,20:5s", "segment 1 \"10\""},
                    BadText{"10..20", "FIRST..LAST:LENGTH"},
                    BadText{"10:5s,..20:5s", "segment 2 \"..20:5s\""},
                    BadText{"10..:5s", "segment 1"},
                    BadText{"1..2..3:5s", "segment 1"},
                    BadText{"10:5s:6s", "segment 1 \"10:5s:6s\""}));

}  // namespace
}  // namespace qgemm::loadtest
