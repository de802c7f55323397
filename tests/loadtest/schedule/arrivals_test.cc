// SPDX-License-Identifier: Apache-2.0
//
// --arrivals as typed, traces, gaps against the distributions that they are
// drawn from (each test of them raises a false alarm once in 10^6 runs), and
// sequences of arrivals against the profile's integral.

#include "loadtest/schedule/arrivals.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/loadtest/schedule/distributions.h"

namespace qgemm::loadtest {
namespace {

TEST(ParseArrivalProcess, KnowsTheKinds) {
  EXPECT_EQ(ParseArrivalProcess("constant")->kind, ArrivalKind::kConstant);
  EXPECT_EQ(ParseArrivalProcess("poisson")->kind, ArrivalKind::kPoisson);
  EXPECT_EQ(ParseArrivalProcess("gamma:2.5")->kind, ArrivalKind::kGamma);
  EXPECT_EQ(ParseArrivalProcess("gamma:2.5")->variation, 2.5);
  EXPECT_EQ(ParseArrivalProcess("trace:/tmp/a:b")->kind, ArrivalKind::kTrace);
  EXPECT_EQ(ParseArrivalProcess("trace:/tmp/a:b")->trace_path, "/tmp/a:b");
}

TEST(ParseArrivalProcess, RefusesAllElse) {
  for (const char* text :
       {"", "Poisson", "uniform", "gamma", "gamma:", "gamma:x", "gamma:0.09",
        "gamma:10.1", "gamma:nan", "gamma:-1", "poisson:1", "trace:"}) {
    const absl::Status status = ParseArrivalProcess(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ParseArrivalTrace, ReadsOneOffsetALine) {
  const auto trace = ParseArrivalTrace("0\n0.25\n0.25\n1e1\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->offsets, (std::vector<absl::Duration>{
                                absl::ZeroDuration(), absl::Milliseconds(250),
                                absl::Milliseconds(250), absl::Seconds(10)}));
}

TEST(ParseArrivalTrace, SkipsCommentsAndEmptyLines) {
  const auto trace =
      ParseArrivalTrace("# seconds\r\n\r\n  1.5  # first\r\n\n2");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->offsets, (std::vector<absl::Duration>{
                                absl::Milliseconds(1500), absl::Seconds(2)}));
}

TEST(ParseArrivalTrace, NamesTheLineThatIsWrong) {
  for (const char* bad :
       {"x", "-1", "1 2", "nan", "inf", "4e7", "1s", "0.25"}) {
    const absl::Status status =
        ParseArrivalTrace(absl::StrCat("# comment\n0.5\n", bad, "\n9"))
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  absl::StrCat("line 3 \"", bad, "\"")))
        << status;
  }
}

TEST(ArrivalTrace, HasAMeanRate) {
  EXPECT_EQ(ParseArrivalTrace("1\n2\n3\n4\n")->mean_rate(), 1);
  EXPECT_EQ(ParseArrivalTrace("0\n0\n")->mean_rate(), 0);
}

constexpr int kGaps = 100000;

std::vector<double> Gaps(const ArrivalProcess& process, uint64_t seed) {
  UnitGaps gaps(process, seed);
  gaps.First();
  std::vector<double> values;
  for (int i = 0; i < kGaps; ++i) values.push_back(gaps.Next());
  return values;
}

// Gaps of every kind that is random; a Poisson process is one of gamma gaps of
// variation 1.
class RandomGaps : public testing::TestWithParam<ArrivalProcess> {
 protected:
  double shape() const {
    return 1 / (GetParam().variation * GetParam().variation);
  }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_P(RandomGaps, HaveTheirDistribution) {
  // A gap of variation 10 is below the smallest double, and then 0, with a
  // probability of 6e-4; that is far below the bound.
  EXPECT_LT(KolmogorovSmirnov(
                Gaps(GetParam(), seed_),
                [&](double x) { return GammaCdf(shape(), shape() * x); }),
            KolmogorovSmirnovBound(kGaps));
}

TEST_P(RandomGaps, StartInEquilibrium) {
  std::vector<double> firsts;
  for (int i = 0; i < kGaps; ++i) {
    firsts.push_back(UnitGaps(GetParam(), uint64_t{seed_} + i).First());
  }
  // The integral of 1 - F from 0 to x, F being the gaps' distribution.
  const auto forward_recurrence = [&](double x) {
    return x * (1 - GammaCdf(shape(), shape() * x)) +
           GammaCdf(shape() + 1, shape() * x);
  };
  EXPECT_LT(KolmogorovSmirnov(firsts, forward_recurrence),
            KolmogorovSmirnovBound(kGaps));
}

TEST_P(RandomGaps, DoNotDependOnEachOther) {
  // Pairs of neighbours by which quarter of the distribution each is in: 16
  // equally likely cells, over pairs that share no gap.
  const std::vector<double> gaps = Gaps(GetParam(), seed_);
  std::vector<int64_t> cells(16);
  const auto quarter = [&](double gap) {
    return std::min(static_cast<int>(4 * GammaCdf(shape(), shape() * gap)), 3);
  };
  for (int i = 0; i < kGaps; i += 2) {
    ++cells[4 * quarter(gaps[i]) + quarter(gaps[i + 1])];
  }
  const double expected = kGaps / 2.0 / 16;
  double chi_square = 0;
  for (int64_t count : cells) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_TRUE(IsCredible(ChiSquareCdf(15, chi_square))) << chi_square;
}

TEST_P(RandomGaps, FollowFromTheSeed) {
  EXPECT_EQ(Gaps(GetParam(), seed_), Gaps(GetParam(), seed_));
  EXPECT_NE(Gaps(GetParam(), seed_), Gaps(GetParam(), uint64_t{seed_} + 1));
}

INSTANTIATE_TEST_SUITE_P(
    UnitGaps, RandomGaps,
    testing::Values(ArrivalProcess{ArrivalKind::kPoisson, 1, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 0.1, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 0.5, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 1, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 2, ""},
                    ArrivalProcess{ArrivalKind::kGamma, 10, ""}));

TEST(UnitGaps, ConstantOnesStartInTheMiddle) {
  UnitGaps gaps({ArrivalKind::kConstant, 1, ""}, 1);
  EXPECT_EQ(gaps.First(), 0.5);
  EXPECT_EQ(gaps.Next(), 1.0);
  EXPECT_EQ(gaps.Next(), 1.0);
}

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
  ArrivalSequence sequence(trace, 0.5);  // times its offsets
  EXPECT_EQ(sequence.Next(), absl::Milliseconds(250));
  EXPECT_EQ(sequence.Next(), absl::Milliseconds(250));
  EXPECT_EQ(sequence.Next(), absl::Seconds(1));
  EXPECT_EQ(sequence.Next(), std::nullopt);
  EXPECT_EQ(sequence.Next(), std::nullopt);
}

}  // namespace

}  // namespace qgemm::loadtest
