// SPDX-License-Identifier: Apache-2.0
//
// Whole picks: shares of classes and inputs, passes of a walk, determinism.

#include "loadtest/workload/workload.h"

#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/loadtest/random/distributions.h"

namespace qgemm {
namespace {

constexpr int kPicks = 100000;

class WorkloadTest : public testing::Test {
 protected:
  WorkloadTest() {
    options_.layers.layers = 7;
    options_.layers.seed = seed_;
    options_.rows = *ParseRowMix("1:0.5,16:0.3,256:0.2");
    options_.inputs = 8;
  }

  Workload Create() const { return *Workload::Create(options_); }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  WorkloadOptions options_;
};

// Counts over cells of these probabilities.
bool AreCredible(const std::vector<int64_t>& counts,
                 const std::vector<double>& shares) {
  double chi_square = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = kPicks * shares[i];
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return IsCredible(
      ChiSquareCdf(static_cast<int64_t>(counts.size()) - 1, chi_square));
}

TEST_F(WorkloadTest, ClassesAndInputsComeByTheirSharesIndependently) {
  const Workload workload = Create();
  std::vector<int64_t> counts(3 * 8);
  std::vector<double> shares;
  for (int i = 0; i < kPicks; ++i) {
    const RequestPick pick = workload.Pick(i, 0);
    ++counts[8 * pick.row_class + pick.input];
  }
  for (const RowClass& row_class : workload.rows().classes()) {
    shares.insert(shares.end(), 8, row_class.share / 8);
  }
  EXPECT_TRUE(AreCredible(counts, shares));
}

TEST_F(WorkloadTest, TheLayerSaysNothingOfTheInput) {
  options_.layers.order = LayerOrder::kZipf;
  options_.layers.layers = 2;
  options_.layers.zipf_exponent = 1;  // shares of 2/3 and 1/3
  options_.inputs = 2;
  const Workload workload = Create();
  std::vector<int64_t> counts(4);
  for (int i = 0; i < kPicks; ++i) {
    const RequestPick pick = workload.Pick(i % 16, i / 16);
    ++counts[2 * pick.layer + pick.input];
  }
  EXPECT_TRUE(AreCredible(counts, {2 / 6.0, 2 / 6.0, 1 / 6.0, 1 / 6.0}));
}

TEST_F(WorkloadTest, AWalkKeepsItsRowsForAPass) {
  options_.layers.order = LayerOrder::kWalk;
  const Workload workload = Create();
  for (int client = 0; client < 10; ++client) {
    RequestPick last = workload.Pick(client, 0);
    for (int i = 1; i < 1000; ++i) {
      const RequestPick pick = workload.Pick(client, i);
      const bool begins_pass = pick.layer == 0;
      EXPECT_TRUE(begins_pass || pick.row_class == last.row_class) << i;
      last = pick;
    }
  }
}

TEST_F(WorkloadTest, PassesOfAWalkDrawRowsByTheirShares) {
  options_.layers.order = LayerOrder::kWalk;
  options_.layers.walk_start = WalkStart::kFirstLayer;
  const Workload workload = Create();
  std::vector<int64_t> counts(3);
  for (int i = 0; i < kPicks; ++i) ++counts[workload.Pick(5, 7 * i).row_class];
  EXPECT_TRUE(AreCredible(counts, {0.5, 0.3, 0.2}));
}

TEST_F(WorkloadTest, FollowsFromTheSeedInAnyOrder) {
  options_.layers.order = LayerOrder::kZipf;
  const Workload workload = Create();
  std::vector<RequestPick> forward;
  for (int i = 0; i < 1000; ++i) forward.push_back(workload.Pick(3, i));
  const Workload again = Create();
  for (int i = 999; i >= 0; --i) EXPECT_EQ(again.Pick(3, i), forward[i]);
}

TEST_F(WorkloadTest, AnotherSeedDrawsOtherInputs) {
  const Workload workload = Create();
  ++options_.layers.seed;
  const Workload other = Create();
  // Equal by chance with a probability of 8^-100.
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    different += workload.Pick(i, 0).input != other.Pick(i, 0).input;
  }
  EXPECT_GT(different, 0);
}

TEST_F(WorkloadTest, RefusesNoInputsAndNoLayers) {
  options_.inputs = 0;
  EXPECT_EQ(Workload::Create(options_).status().code(),
            absl::StatusCode::kInvalidArgument);
  options_.inputs = 1;
  options_.layers.layers = 0;
  EXPECT_EQ(Workload::Create(options_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm
