// SPDX-License-Identifier: Apache-2.0
//
// PeakSearch against servers that hold up to a capacity, sharply or with
// noise.

#include "loadtest/peak_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

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

TEST(PeakSearchTest, BeginsAtTheFirstRate) {
  PeakSearchOptions options;
  options.first_rate = 321;
  const PeakSearch search(options);
  ASSERT_TRUE(search.Next().has_value());
  EXPECT_EQ(search.Next()->rate, 321);
  EXPECT_FALSE(search.Next()->confirming);
  EXPECT_EQ(search.peak(), 0);
  EXPECT_FALSE(search.confirmed());
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

TEST(PeakSearchTest, NoRateIsTriedTwiceBeforeTheConfirmation) {
  const PeakSearchOptions options;
  PeakSearch search(options);
  std::set<double> rates;
  for (const Told& each : Search(&search, options, UpTo(777))) {
    if (each.step.confirming) continue;
    EXPECT_TRUE(rates.insert(each.step.rate).second) << each.step.rate;
  }
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

TEST(PeakSearchTest, AFirstRateBelowTheLowestIsTriedOnce) {
  PeakSearchOptions options;
  options.first_rate = 0.5;
  PeakSearch search(options);
  search.Tell(false);
  EXPECT_FALSE(search.Next().has_value());
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

TEST(PeakSearchTest, WithoutAConfirmationThePeakIsWhatHeldInShortRuns) {
  const PeakSearchOptions options;
  PeakSearch search(options);
  const std::vector<Told> told =
      Search(&search, options, ShorterHoldMore(2000, 0));
  int confirmations = 0;
  for (const Told& each : told) confirmations += each.step.confirming ? 1 : 0;
  EXPECT_EQ(confirmations, options.confirm_attempts);
  EXPECT_FALSE(search.confirmed());
  EXPECT_EQ(search.peak(), 2000);
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

// A server whose chance to hold falls from 1 to 0 between two rates: the
// search ends between them, or a resolution and its retries below.
TEST(PeakSearchTest, ANoisyServersPeakLiesWhereItsNoiseIs) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  constexpr double kAlwaysHolds = 3000;
  constexpr double kNeverHolds = 4000;
  const PeakSearchOptions options;
  const double slack =
      std::pow(1 + options.resolution, options.confirm_attempts);
  for (int i = 0; i < 500; ++i) {
    PeakSearch search(options);
    Search(&search, options, [&](const PeakSearch::Step& step) {
      std::uniform_real_distribution<double> capacity(kAlwaysHolds,
                                                      kNeverHolds);
      return step.rate <= capacity(random);
    });
    ASSERT_LT(search.peak(), kNeverHolds);
    ASSERT_GE(search.peak() * slack, kAlwaysHolds);
  }
}

}  // namespace
}  // namespace qgemm
