// SPDX-License-Identifier: Apache-2.0
//
// Sequences of arrivals: their counts against the profile's integral, their
// precision after ten million, their order, and traces.

#include "loadtest/schedule/arrivals.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/loadtest/random/distributions.h"

namespace qgemm {
namespace {

const ArrivalProcess kConstant{ArrivalKind::kConstant, 1, ""};
const ArrivalProcess kPoisson{ArrivalKind::kPoisson, 1, ""};
const ArrivalProcess kBursts{ArrivalKind::kGamma, 10, ""};

RateProfile Profile(absl::string_view text) { return *ParseRateProfile(text); }

// Every arrival before `end`.
std::vector<absl::Duration> Before(ArrivalSequence sequence,
                                   absl::Duration end) {
  std::vector<absl::Duration> offsets;
  for (auto next = sequence.Next(); next.has_value() && *next < end;
       next = sequence.Next()) {
    offsets.push_back(*next);
  }
  return offsets;
}

int64_t CountBefore(const std::vector<absl::Duration>& ascending,
                    absl::Duration end) {
  return std::lower_bound(ascending.begin(), ascending.end(), end) -
         ascending.begin();
}

class ArrivalSequenceTest : public testing::Test {
 protected:
  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  std::mt19937_64 random_{seed_};
};

TEST_F(ArrivalSequenceTest, ConstantOnesComeInTheMiddleOfTheirGaps) {
  ArrivalSequence sequence(kConstant, Profile("100"), seed_);
  EXPECT_EQ(sequence.Next(), absl::Milliseconds(5));
  EXPECT_EQ(sequence.Next(), absl::Milliseconds(15));
  EXPECT_EQ(sequence.Next(), absl::Milliseconds(25));
}

TEST_F(ArrivalSequenceTest, ConstantOnesCountAsTheProfileSays) {
  const RateProfile profile = Profile("100:5s,100..2000:30s,2000..50:9s,7:5s");
  const absl::Duration end = absl::Seconds(60);
  const std::vector<absl::Duration> arrivals =
      Before(ArrivalSequence(kConstant, profile, seed_), end);
  std::uniform_real_distribution<double> seconds(0, 60);
  for (int i = 0; i < 10000; ++i) {
    const absl::Duration until = absl::Seconds(seconds(random_));
    const double due = profile.ArrivalsUntil(until);
    // Halfway between two counts, rounding decides: by less than 10^-6, as an
    // offset is off by a quarter of a nanosecond and a rate at most 2000.
    if (std::fabs(due - std::floor(due) - 0.5) < 1e-6) continue;
    EXPECT_EQ(CountBefore(arrivals, until), std::llround(due)) << until;
  }
}

TEST_F(ArrivalSequenceTest, ConstantOnesFillEachSecondExactly) {
  const std::vector<absl::Duration> arrivals = Before(
      ArrivalSequence(kConstant, Profile("300"), seed_), absl::Seconds(100));
  for (int second = 1; second <= 100; ++second) {
    EXPECT_EQ(CountBefore(arrivals, absl::Seconds(second)), 300 * second);
  }
}

TEST_F(ArrivalSequenceTest, PoissonCountsHaveTheProfilesMean) {
  const RateProfile profile = Profile("100..2000:30s,500");
  const absl::Duration end = absl::Seconds(60);
  const auto count = static_cast<int64_t>(
      Before(ArrivalSequence(kPoisson, profile, seed_), end).size());
  EXPECT_TRUE(IsCredible(PoissonCdf(profile.ArrivalsUntil(end), count)))
      << count;
}

TEST_F(ArrivalSequenceTest, PoissonCountsDisperseAsTheirMean) {
  // Windows of 100 arrivals on average each; given the total, the statistic
  // has the mean and, but for 1 / total, the variance of chi-square.
  constexpr int kWindows = 2000;
  const RateProfile profile = Profile("100..2000:30s,2000..100:30s,4000");
  const auto window_end = [&](int i) { return profile.OffsetOf(100.0 * i); };
  const std::vector<absl::Duration> arrivals =
      Before(ArrivalSequence(kPoisson, profile, seed_), window_end(kWindows));
  const double mean = static_cast<double>(arrivals.size()) / kWindows;
  double chi_square = 0;
  for (int i = 0; i < kWindows; ++i) {
    const int64_t count = CountBefore(arrivals, window_end(i + 1)) -
                          CountBefore(arrivals, window_end(i));
    chi_square += (count - mean) * (count - mean) / mean;
  }
  EXPECT_TRUE(IsCredible(ChiSquareCdf(kWindows - 1, chi_square)))
      << "index of dispersion " << chi_square / (kWindows - 1);
}

TEST_F(ArrivalSequenceTest, AMillionAscend) {
  for (const ArrivalProcess& process : {kConstant, kPoisson, kBursts}) {
    ArrivalSequence sequence(
        process, Profile("1e5..1000:3s,1000..1e6:3s,0.5:1s,2e6"), seed_);
    absl::Duration last;
    for (int i = 0; i < 1000000; ++i) {
      const std::optional<absl::Duration> next = sequence.Next();
      ASSERT_TRUE(next.has_value());
      ASSERT_GE(*next, last) << i;
      last = *next;
    }
  }
}

TEST_F(ArrivalSequenceTest, TenMillionConstantOnesAreExact) {
  ArrivalSequence sequence(kConstant, Profile("1000"), seed_);
  for (int i = 1; i < 10000000; ++i) sequence.Next();
  EXPECT_EQ(sequence.Next(), absl::Seconds(10000) - absl::Microseconds(500));
}

TEST_F(ArrivalSequenceTest, TenMillionGapsSumUpWithinAMicrosecond) {
  // So few a second that the last is 30 years away: each rounding of a sum of
  // seconds is up to 10^-7 then, and there are four.
  // Sums in fixed point with a step of 2^-60, which loses less than 10^-11.
  constexpr double kSteps = 0x1p60;
  UnitGaps gaps(kPoisson, seed_);
  ArrivalSequence sequence(kPoisson, Profile("0.01"), seed_);
  auto sum = static_cast<__int128>(gaps.First() * kSteps);
  for (int i = 1; i < 10000000; ++i) {
    sum += static_cast<__int128>(gaps.Next() * kSteps);
    sequence.Next();
  }
  const auto units = static_cast<long double>(sum) / kSteps;
  EXPECT_NEAR(absl::ToDoubleSeconds(*sequence.Next()),
              static_cast<double>(units * 100), 1e-6);
}

TEST_F(ArrivalSequenceTest, TheSeedDecidesThem) {
  const absl::Duration end = absl::Seconds(10);
  const RateProfile profile = Profile("10..1000:10s");
  const auto arrivals = [&](uint64_t seed) {
    return Before(ArrivalSequence(kBursts, profile, seed), end);
  };
  EXPECT_EQ(arrivals(seed_), arrivals(seed_));
  EXPECT_NE(arrivals(seed_), arrivals(uint64_t{seed_} + 1));
}

TEST(TraceArrivals, AreTheTracesAndEnd) {
  const auto trace =
      std::make_shared<const ArrivalTrace>(*ParseArrivalTrace("0.5\n0.5\n2\n"));
  ArrivalSequence sequence(trace, 1);
  EXPECT_EQ(sequence.Next(), absl::Milliseconds(500));
  EXPECT_EQ(sequence.Next(), absl::Milliseconds(500));
  EXPECT_EQ(sequence.Next(), absl::Seconds(2));
  EXPECT_EQ(sequence.Next(), std::nullopt);
  EXPECT_EQ(sequence.Next(), std::nullopt);
}

TEST(TraceArrivals, AreScaledInTime) {
  const auto trace =
      std::make_shared<const ArrivalTrace>(*ParseArrivalTrace("1\n4\n"));
  ArrivalSequence sequence(trace, 0.25);
  EXPECT_EQ(sequence.Next(), absl::Milliseconds(250));
  EXPECT_EQ(sequence.Next(), absl::Seconds(1));
}

}  // namespace
}  // namespace qgemm
