// SPDX-License-Identifier: Apache-2.0
//
// Row mixes as typed; picks: round robin and walks exactly, shares of Zipf,
// classes and inputs by chi-square, determinism.

#include "loadtest/workload/workload.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/loadtest/schedule/distributions.h"

namespace qgemm::loadtest {

bool operator==(const RequestPick& a, const RequestPick& b) {
  return a.layer == b.layer && a.row_class == b.row_class && a.input == b.input;
}

namespace {

TEST(RowMix, MakesSharesOfWeights) {
  const RowMix mix = *ParseRowMix("1:6,16:1.5,256:0.5");
  ASSERT_EQ(mix.classes().size(), 3);
  EXPECT_EQ(mix.classes()[0].share, 0.75);
  EXPECT_EQ(mix.classes()[1].share, 0.1875);
  EXPECT_EQ(mix.classes()[2].share, 0.0625);
  EXPECT_EQ(ParseRowMix("1,2:3")->classes()[0].share, 0.25);
  EXPECT_EQ(RowMix().classes()[0].rows, 1);
}

TEST(RowMix, PicksByTheSumsOfShares) {
  const RowMix mix = *ParseRowMix("1:6,16:1.5,256:0.5");
  EXPECT_EQ(mix.Pick(0), 0);
  EXPECT_EQ(mix.Pick(0.75 - 0x1p-53), 0);
  EXPECT_EQ(mix.Pick(0.75), 1);
  EXPECT_EQ(mix.Pick(0.9375), 2);
  EXPECT_EQ(mix.Pick(1 - 0x1p-53), 2);
}

TEST(RowMix, RoundingLeavesNoGapAtTheEnd) {
  // Shares of 1/49 do not sum to 1 in doubles.
  std::string text = "1";
  for (int rows = 2; rows <= 49; ++rows) absl::StrAppend(&text, ",", rows);
  EXPECT_EQ(ParseRowMix(text)->Pick(1 - 0x1p-53), 48);
}

TEST(RowMix, NamesTheEntryThatIsWrong) {
  for (const char* text :
       {"0", "-1", "x", "1048577", "1:0", "1:-1", "1:x", "1:nan", "1:inf",
        "1:2e9", "", "1:", "1:1:1", "2,2", "2:0.5,2:0.5"}) {
    const absl::Status status = ParseRowMix(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_TRUE(absl::StrContains(ParseRowMix("1:1,x:2").status().message(),
                                "\"x:2\": rows must be 1 to 1048576"));
}

constexpr int kPicks = 100000;

class WorkloadTest : public testing::Test {
 protected:
  WorkloadTest() {
    options_.layers = 7;
    options_.seed = seed_;
    options_.rows = *ParseRowMix("1:0.5,16:0.3,256:0.2");
    options_.inputs = 8;
  }

  Workload Create() const { return Workload(options_); }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  WorkloadOptions options_;
};

// True if the counts may be of cells with these probabilities.
bool AreCredible(const std::vector<int64_t>& counts,
                 const std::vector<double>& shares) {
  double total = 0;
  for (int64_t count : counts) total += count;
  double chi_square = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * shares[i];
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return IsCredible(
      ChiSquareCdf(static_cast<int64_t>(counts.size()) - 1, chi_square));
}

TEST_F(WorkloadTest, RoundRobinTakesEachLayerOnceARound) {
  const Workload workload = Create();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(workload.Pick(0, i).layer, i % 7);  // a client's requests
    EXPECT_EQ(workload.Pick(i, 0).layer, i % 7);  // arrivals
  }
}

TEST_F(WorkloadTest, AWalkGoesThroughTheLayersAndKeepsItsRowsForAPass) {
  options_.walk = true;
  const Workload workload = Create();
  for (int client = 0; client < 10; ++client) {
    RequestPick last = workload.Pick(client, 0);
    for (int i = 1; i < 1000; ++i) {
      const RequestPick pick = workload.Pick(client, i);
      EXPECT_EQ(pick.layer, (last.layer + 1) % 7);
      EXPECT_TRUE(pick.layer == 0 || pick.row_class == last.row_class) << i;
      last = pick;
    }
  }
}

TEST_F(WorkloadTest, WalksBeginAnywhereAndDrawRowsByTheirShares) {
  options_.walk = true;
  const Workload workload = Create();
  std::vector<int64_t> starts(7);
  std::vector<int64_t> rows(3);
  for (int i = 0; i < kPicks; ++i) {
    ++starts[workload.Pick(i, 0).layer];
    ++rows[workload.Pick(5, 7 * i).row_class];
  }
  EXPECT_TRUE(AreCredible(starts, std::vector<double>(7, 1 / 7.0)));
  EXPECT_TRUE(AreCredible(rows, {0.5, 0.3, 0.2}));
}

TEST_F(WorkloadTest, ZipfLayersHaveTheirDistribution) {
  // The rarest of 12 layers is expected 100000 / (12^2 * 1.6) = 430 times or
  // more: far above the handful from which counts are near enough to normal.
  options_.layers = 12;
  for (const double exponent : {0.1, 1.0, 2.0}) {
    options_.zipf_exponent = exponent;
    const Workload workload = Create();
    std::vector<int64_t> arrivals(12);
    std::vector<int64_t> clients(12);
    for (int i = 0; i < kPicks; ++i) {
      ++arrivals[workload.Pick(i, 0).layer];
      ++clients[workload.Pick(i % 64, i / 64).layer];
    }
    std::vector<double> shares;
    double norm = 0;
    for (int i = 1; i <= 12; ++i) norm += std::pow(i, -exponent);
    for (int i = 1; i <= 12; ++i)
      shares.push_back(std::pow(i, -exponent) / norm);
    EXPECT_TRUE(AreCredible(arrivals, shares)) << exponent;
    EXPECT_TRUE(AreCredible(clients, shares)) << exponent;
  }
}

TEST_F(WorkloadTest, ClassesAndInputsComeByTheirSharesIndependently) {
  const Workload workload = Create();
  std::vector<int64_t> counts(3 * 8);
  std::vector<double> shares;
  for (int i = 0; i < kPicks; ++i) {
    const RequestPick pick = workload.Pick(i, 0);
    ++counts[8 * pick.row_class + pick.input];
  }
  for (const RowClass& row_class : options_.rows.classes()) {
    shares.insert(shares.end(), 8, row_class.share / 8);
  }
  EXPECT_TRUE(AreCredible(counts, shares));
}

TEST_F(WorkloadTest, FollowsFromTheSeedInAnyOrder) {
  options_.zipf_exponent = 1;
  const Workload workload = Create();
  std::vector<RequestPick> forward;
  for (int i = 0; i < 1000; ++i) forward.push_back(workload.Pick(3, i));
  const Workload again = Create();
  ++options_.seed;
  const Workload other = Create();
  int different = 0;
  for (int i = 999; i >= 0; --i) {
    EXPECT_EQ(again.Pick(3, i), forward[i]);
    different += other.Pick(3, i).input != forward[i].input;
  }
  EXPECT_GT(different, 0);  // none by chance with a probability of 8^-1000
}

}  // namespace
}  // namespace qgemm::loadtest
