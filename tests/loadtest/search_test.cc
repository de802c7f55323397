// SPDX-License-Identifier: Apache-2.0
//
// --sweep and --slo as typed, and PeakSearch against servers of known capacity.

#include "loadtest/search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm::loadtest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Sweep Parse(absl::string_view text) {
  const absl::StatusOr<Sweep> sweep = ParseSweep(text);
  EXPECT_TRUE(sweep.ok()) << sweep.status();
  return sweep.ok() ? *sweep : Sweep();
}

TEST(SweepTest, ReadsListsOfEachFlag) {
  const Sweep rate = Parse("rate=100,200.5");
  EXPECT_EQ(rate.flag, SweptFlag::kRate);
  EXPECT_THAT(rate.values, ElementsAre("100", "200.5"));
  const Sweep concurrency = Parse("concurrency=1,2,4");
  EXPECT_EQ(concurrency.flag, SweptFlag::kConcurrency);
  EXPECT_THAT(concurrency.values, ElementsAre("1", "2", "4"));
  const Sweep m = Parse("m=16");
  EXPECT_EQ(m.flag, SweptFlag::kM);
  EXPECT_THAT(m.values, ElementsAre("16"));
}

TEST(SweepTest, RangesAreEvenOnALogScale) {
  EXPECT_THAT(Parse("concurrency=1..64/7").values,
              ElementsAre("1", "2", "4", "8", "16", "32", "64"));
  EXPECT_THAT(Parse("rate=1000..8000/4").values,
              ElementsAre("1000", "2000", "4000", "8000"));
}

TEST(SweepTest, RatesOfARangeHaveThreeDigits) {
  EXPECT_THAT(Parse("rate=100..1000/4").values,
              ElementsAre("100", "215", "464", "1000"));
  EXPECT_THAT(Parse("rate=0.01..1/3").values, ElementsAre("0.01", "0.1", "1"));
}

TEST(SweepTest, RangesOfWholeNumbersLeaveOutRepeats) {
  EXPECT_THAT(Parse("m=1..4/10").values, ElementsAre("1", "2", "3", "4"));
}

TEST(SweepTest, RefusesWhatIsNoSweep) {
  std::string many = "rate=1";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&many, ",1");
  for (const std::string& text : std::vector<std::string>{
           "rate",          "rate=",         "rate=,",        "=1",
           "rows=1,2",      "Rate=1",        "rate=1..2",     "rate=1../3",
           "rate=..2/3",    "rate=2..1/3",   "rate=1..1/3",   "rate=0..1/3",
           "rate=-1..1/3",  "rate=1..2/1",   "rate=1..2/101", "rate=1..2/x",
           "rate=1..inf/3", "rate=nan..2/3", "rate=1..nan/3", many}) {
    const absl::Status status = ParseSweep(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("allowed are"))
        << text;
  }
}

using Server = std::function<bool(const PeakSearch::Step&)>;

Server UpTo(double capacity) {
  return [capacity](const PeakSearch::Step& step) {
    return step.rate <= capacity;
  };
}

struct Told {
  PeakSearch::Step step;
  bool held;
};

// More runs than any search may take: doublings or halvings over the whole
// range of rates, bisections from a factor of 2 down to the resolution (each
// halves its logarithm), and confirmations.
int MostRuns(const PeakSearchOptions& options) {
  const double doublings =
      std::ceil(std::log2(options.highest_rate / options.first_rate)) + 1;
  const double halvings =
      std::ceil(std::log2(options.first_rate / options.lowest_rate)) + 1;
  const double bisections =
      std::ceil(std::log2(std::log(2) / std::log1p(options.resolution))) + 1;
  return static_cast<int>(std::max(doublings, halvings) + bisections) + 1 +
         options.confirm_attempts;
}

std::vector<Told> Search(PeakSearch* search, const PeakSearchOptions& options,
                         const Server& server) {
  std::vector<Told> told;
  const int most = MostRuns(options);
  while (const std::optional<PeakSearch::Step> step = search->Next()) {
    if (static_cast<int>(told.size()) == most) {
      ADD_FAILURE() << "more than " << most << " runs";
      break;
    }
    told.push_back({*step, server(*step)});
    search->Tell(told.back().held);
  }
  return told;
}

PeakSearchOptions RandomOptions(std::mt19937_64* random) {
  std::uniform_real_distribution<double> log_rate(std::log(1.0), std::log(1e7));
  PeakSearchOptions options;
  options.first_rate = std::exp(log_rate(*random));
  options.resolution =
      std::uniform_real_distribution<double>(0.01, 0.5)(*random);
  return options;
}

TEST(SloTest, ReadsBoundsInTheirOrder) {
  const Slo slo = *ParseSlo("p99=500us,p99.9=2ms");
  ASSERT_EQ(slo.size(), 2);
  EXPECT_EQ(slo[0].name, "p99");
  EXPECT_EQ(slo[0].percent, 99);
  EXPECT_EQ(slo[0].limit, absl::Microseconds(500));
  EXPECT_EQ(slo[1].percent, 99.9);
  EXPECT_TRUE(ParseSlo("")->empty());
}

TEST(SloTest, NamesTheBoundAtFault) {
  for (const char* text :
       {"p99", "=1ms", "99=1ms", "p0=1ms", "p100.1=1ms", "pnan=1ms", "p99=0",
        "p99=-1ms", "p99=500", "p99=1ms,", "mean=1ms", "p99=1ms=2ms"}) {
    EXPECT_EQ(ParseSlo(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_THAT(std::string(ParseSlo("p99=1ms,p50=x").status().message()),
              HasSubstr("'p50=x'"));
}

TEST(PeakSearchTest, FindsTheCapacityToTheResolution) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const PeakSearchOptions options = RandomOptions(&random);
    // From the lowest rate that is tried in any case to the highest.
    const double capacity = std::exp(std::uniform_real_distribution<double>(
        std::log(2.0), std::log(options.highest_rate))(random));
    PeakSearch search(options);
    Search(&search, options, UpTo(capacity));
    ASSERT_TRUE(search.confirmed()) << "capacity " << capacity;
    ASSERT_LE(search.peak(), capacity);
    ASSERT_GE(search.peak() * (1 + options.resolution), capacity);
  }
}

TEST(PeakSearchTest, TheLastRunConfirmsThePeak) {
  const PeakSearchOptions options;
  PeakSearch search(options);
  const std::vector<Told> told = Search(&search, options, UpTo(12345));
  for (size_t i = 0; i + 1 < told.size(); ++i) {
    EXPECT_FALSE(told[i].step.confirming) << "run " << i;
  }
  EXPECT_TRUE(told.back().step.confirming);
  EXPECT_EQ(told.back().step.rate, search.peak());
}

TEST(PeakSearchTest, AServerThatHoldsEverythingGetsTheHighestRate) {
  const PeakSearchOptions options;
  PeakSearch search(options);
  Search(&search, options, UpTo(INFINITY));
  EXPECT_EQ(search.peak(), options.highest_rate);
  EXPECT_TRUE(search.confirmed());
}

TEST(PeakSearchTest, AServerThatHoldsNothingHasNoPeak) {
  const PeakSearchOptions options;
  PeakSearch search(options);
  for (const Told& each : Search(&search, options, UpTo(0))) {
    EXPECT_GE(each.step.rate, options.lowest_rate);
    EXPECT_FALSE(each.step.confirming);
  }
  EXPECT_EQ(search.peak(), 0);
  EXPECT_FALSE(search.confirmed());
}

// Short runs that hold above what longer ones do.
Server ShorterHoldMore(double capacity, double confirmed_capacity) {
  return [=](const PeakSearch::Step& step) {
    return step.rate <= (step.confirming ? confirmed_capacity : capacity);
  };
}

TEST(PeakSearchTest, AConfirmationThatFailsIsTriedAtALowerRate) {
  PeakSearchOptions options;
  options.resolution = 0.1;
  PeakSearch search(options);
  const std::vector<Told> told =
      Search(&search, options, ShorterHoldMore(2000, 1850));
  // 2000 holds, and what is above by the resolution does not.
  ASSERT_GE(told.size(), 2);
  const Told& failed = told[told.size() - 2];
  EXPECT_TRUE(failed.step.confirming);
  EXPECT_EQ(failed.step.rate, 2000);
  EXPECT_TRUE(search.confirmed());
  EXPECT_DOUBLE_EQ(search.peak(), 2000 / 1.1);
}

// Whatever a server says, the search ends in time, at a rate that held, and
// tries none beyond its limits.
TEST(PeakSearchTest, NoiseNeitherPreventsTheEndNorInventsAPeak) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const PeakSearchOptions options = RandomOptions(&random);
    const double chance = std::uniform_real_distribution<double>(0, 1)(random);
    std::bernoulli_distribution holds(chance);
    PeakSearch search(options);
    const std::vector<Told> told =
        Search(&search, options,
               [&](const PeakSearch::Step&) { return holds(random); });
    bool found = search.peak() == 0;
    for (const Told& each : told) {
      ASSERT_LE(each.step.rate, options.highest_rate);
      ASSERT_GT(each.step.rate, 0);
      found = found || (each.held && each.step.rate == search.peak());
    }
    ASSERT_TRUE(found) << "no run at " << search.peak() << " held";
    ASSERT_EQ(search.confirmed(),
              told.back().step.confirming && told.back().held);
  }
}

}  // namespace

}  // namespace qgemm::loadtest
