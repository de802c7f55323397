// SPDX-License-Identifier: Apache-2.0
//
// Rates and latencies of policies in simulated time, equal in every run.

#include "tests/server/scheduling/simulator.h"

#include <cstdint>
#include <string>
#include <tuple>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

SchedulerOptions Ordered(BatchOrder order) {
  SchedulerOptions options;
  options.batching.max_requests = options.batching.max_rows;
  options.policy.order = order;
  return options;
}

SchedulerOptions Unbatched() {
  SchedulerOptions options;
  options.batching.max_requests = 1;
  return options;
}

SimulatedLoad Load(AccessPattern pattern, int64_t clients, uint64_t seed) {
  SimulatedLoad load;
  load.pattern = pattern;
  load.clients = clients;
  load.seed = seed;
  return load;
}

class SimulatedWalkTest
    : public testing::TestWithParam<std::tuple<int64_t, uint64_t>> {
 protected:
  SimulatedLoad Walk() const {
    const auto [clients, seed] = GetParam();
    return Load(AccessPattern::kDecodeWalk, clients, seed);
  }
  int64_t clients() const { return std::get<0>(GetParam()); }

  // A walk of programs of a layer each, which take kProgram, whether for 64
  // rows or for one.
  static constexpr int64_t kProgramWork = 4;
  static constexpr absl::Duration kProgram = absl::Microseconds(80);
  SimulatedRun WalkPrograms(absl::Duration turnaround,
                            absl::Duration device_start) const {
    SimulatedLoad load = Walk();
    load.matrices = 33;
    load.row_work = kProgramWork;
    load.turnaround = turnaround;
    SimulatedDevice device;
    device.tile = kProgram / kProgramWork;
    device.tile_rows = 64;
    device.start = device_start;
    SchedulerOptions options = Ordered(BatchOrder::kChase);
    options.policy.age_cap = absl::Milliseconds(5);
    return Simulate(options, load, device);
  }
};

TEST_P(SimulatedWalkTest, ChaseIsWellAboveOldest) {
  const SimulatedRun oldest = Simulate(Ordered(BatchOrder::kOldest), Walk());
  const SimulatedRun chase = Simulate(Ordered(BatchOrder::kChase), Walk());
  RecordProperty("oldest_per_second",
                 std::to_string(oldest.requests_per_second));
  RecordProperty("chase_per_second", std::to_string(chase.requests_per_second));
  const double factor = clients() == 64 ? 5 : clients() == 32 ? 3 : 2;
  EXPECT_GE(chase.requests_per_second, factor * oldest.requests_per_second);
}

TEST_P(SimulatedWalkTest, ChaseKeepsTheTailWithinThatOfOldest) {
  const SimulatedRun oldest = Simulate(Ordered(BatchOrder::kOldest), Walk());
  const SimulatedRun chase = Simulate(Ordered(BatchOrder::kChase), Walk());
  EXPECT_LE(chase.p99, oldest.p99);
}

TEST_P(SimulatedWalkTest, FullestIsNotWorseThanOldest) {
  const SimulatedRun oldest = Simulate(Ordered(BatchOrder::kOldest), Walk());
  const SimulatedRun fullest = Simulate(Ordered(BatchOrder::kFullest), Walk());
  RecordProperty("oldest_per_second",
                 std::to_string(oldest.requests_per_second));
  RecordProperty("fullest_per_second",
                 std::to_string(fullest.requests_per_second));
  EXPECT_GE(fullest.requests_per_second, 0.95 * oldest.requests_per_second);
}

// With two in flight it were a third of them each.
TEST_P(SimulatedWalkTest, HeavyLaunchesHaveHalfOfTheClientsEach) {
  const SimulatedRun run =
      WalkPrograms(absl::Microseconds(40), absl::ZeroDuration());
  EXPECT_GE(run.rows_per_launch, 0.45 * static_cast<double>(clients()));
}

TEST_P(SimulatedWalkTest, AnIdleDevicesStartIsNotWaitedForBehindAnother) {
  constexpr absl::Duration kStart = absl::Microseconds(30);
  const SimulatedRun run = WalkPrograms(kStart, kStart);
  const double launches_per_second =
      run.requests_per_second / run.rows_per_launch;
  EXPECT_GE(launches_per_second, 0.95 / absl::ToDoubleSeconds(kProgram));
}

// By turns they were a half of them each.
TEST_P(SimulatedWalkTest, LongLaunchesOfOneMatrixHaveAllClients) {
  SimulatedLoad load = Walk();
  load.matrices = 1;
  SimulatedDevice device;
  device.tile = absl::Microseconds(600);
  device.tile_rows = 64;
  const SimulatedRun run = Simulate(Ordered(BatchOrder::kOldest), load, device);
  EXPECT_GE(run.rows_per_launch, 0.95 * static_cast<double>(clients()));
}

class SimulatedRandomAccessTest : public SimulatedWalkTest {};

TEST_P(SimulatedRandomAccessTest, ChaseIsNotWorseThanOldest) {
  const auto [clients, seed] = GetParam();
  const SimulatedLoad load = Load(AccessPattern::kRandom, clients, seed);
  const SimulatedRun oldest = Simulate(Ordered(BatchOrder::kOldest), load);
  const SimulatedRun chase = Simulate(Ordered(BatchOrder::kChase), load);
  EXPECT_LE(chase.p99, 1.05 * oldest.p99);
  EXPECT_GE(chase.requests_per_second, 0.95 * oldest.requests_per_second);
}

std::string NameOf(
    const testing::TestParamInfo<std::tuple<int64_t, uint64_t>>& row) {
  return std::to_string(std::get<0>(row.param)) + "ClientsSeed" +
         std::to_string(std::get<1>(row.param));
}

INSTANTIATE_TEST_SUITE_P(Sweep, SimulatedWalkTest,
                         testing::Combine(testing::Values(16, 32, 64),
                                          testing::Values(1, 2, 3)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Sweep, SimulatedRandomAccessTest,
                         testing::Combine(testing::Values(16, 32, 64),
                                          testing::Values(1, 2, 3)),
                         NameOf);

SimulatedLoad OneMatrixAt(double requests_per_second) {
  SimulatedLoad load;
  load.pattern = AccessPattern::kOneMatrix;
  load.matrices = 1;
  load.requests_per_second = requests_per_second;
  return load;
}

// A device of 50 000 launches a second.
TEST(SimulatedOneMatrixTest, BatchingCarriesEightTimesTheRateOfNone) {
  const SimulatedRun run =
      Simulate(Ordered(BatchOrder::kOldest), OneMatrixAt(400'000));
  EXPECT_GE(run.requests_per_second, 0.99 * 400'000);
  // The launch that runs, the one behind it and its own.
  EXPECT_LE(run.p99, absl::Microseconds(60));
}

TEST(SimulatedOneMatrixTest, WithoutBatchingTheRateIsThatOfLaunches) {
  const SimulatedRun run = Simulate(Unbatched(), OneMatrixAt(100'000));
  EXPECT_NEAR(run.requests_per_second, 50'000, 500);
  EXPECT_EQ(run.rows_per_launch, 1);
}

TEST(SimulatedOneMatrixTest, LightLoadIsNotDelayed) {
  const SimulatedRun batched =
      Simulate(Ordered(BatchOrder::kOldest), OneMatrixAt(5'000));
  const SimulatedRun unbatched = Simulate(Unbatched(), OneMatrixAt(5'000));
  EXPECT_EQ(batched.p50, unbatched.p50);
}

// Somebody else's 900 requests of 64 rows, whatever client ids they have.
class SimulatedBacklogTest : public testing::TestWithParam<int64_t> {
 protected:
  static SimulatedLoad Beside(int64_t clients, int64_t client_ids) {
    SimulatedLoad load = Load(AccessPattern::kDecodeWalk, clients, 1);
    load.rows = 3;
    load.clients_are_identities = true;
    load.backlog.requests = 900;
    load.backlog.client_ids = client_ids;
    load.backlog.priority = Priority::kHigh;
    return load;
  }
};

TEST_P(SimulatedBacklogTest, DelaysAnotherClientByTheLaunchesInFlight) {
  for (const BatchOrder order :
       {BatchOrder::kOldest, BatchOrder::kChase, BatchOrder::kFullest}) {
    const SimulatedRun run = Simulate(Ordered(order), Beside(1, GetParam()));
    EXPECT_LE(run.most_launches_waited, 2);
    // Two launches of 64 rows and its own.
    EXPECT_LE(run.p99, absl::Microseconds(2 * 80 + 20));
  }
}

TEST_P(SimulatedBacklogTest, LeavesTheRestOfTheDeviceToIt) {
  const SimulatedRun run =
      Simulate(Ordered(BatchOrder::kOldest), Beside(1, GetParam()));
  RecordProperty("victim_per_second", std::to_string(run.requests_per_second));
  EXPECT_GE(run.requests_per_second, 1e6 / (2 * 80 + 20 + 100));
}

INSTANTIATE_TEST_SUITE_P(ClientIds, SimulatedBacklogTest,
                         testing::Values(1, 30, 900));

// Somebody else's programs, a row of which takes as long as many of a product.
class SimulatedHeavyBacklogTest : public testing::TestWithParam<int64_t> {
 protected:
  static SimulatedLoad Others() {
    SimulatedLoad load = Load(AccessPattern::kRandom, 64, 1);
    load.rows = 3;
    return load;
  }
  static SimulatedLoad Beside(int64_t row_work) {
    SimulatedLoad load = Others();
    load.backlog.requests = 900;
    load.backlog.rows = 16;
    load.backlog.row_work = row_work;
    return load;
  }
};

// Less than half, since a long launch begins whenever none of them waits.
// Counted by rows, they would have 6 % beside rows of 16, and 1.5 % beside
// those of 64.
TEST_P(SimulatedHeavyBacklogTest, LeavesOthersAPartOfTheDevicesTime) {
  const SchedulerOptions options = Ordered(BatchOrder::kOldest);
  const SimulatedRun alone = Simulate(options, Others());
  const SimulatedRun beside = Simulate(options, Beside(GetParam()));
  RecordProperty("alone_per_second", std::to_string(alone.requests_per_second));
  RecordProperty("beside_per_second",
                 std::to_string(beside.requests_per_second));
  EXPECT_GE(beside.requests_per_second, 0.18 * alone.requests_per_second);
  EXPECT_LE(beside.requests_per_second, 0.6 * alone.requests_per_second);
}

INSTANTIATE_TEST_SUITE_P(RowWork, SimulatedHeavyBacklogTest,
                         testing::Values(16, 64));

// Rows share launches, whoever asks.
TEST_P(SimulatedWalkTest, ClientsOfManyIdentitiesAreServedAsThoseOfOne) {
  SimulatedLoad load = Walk();
  const SimulatedRun one = Simulate(Ordered(BatchOrder::kOldest), load);
  load.clients_are_identities = true;
  const SimulatedRun many = Simulate(Ordered(BatchOrder::kOldest), load);
  RecordProperty("one_identity", std::to_string(one.requests_per_second));
  RecordProperty("many", std::to_string(many.requests_per_second));
  EXPECT_GE(many.requests_per_second, 0.9 * one.requests_per_second);
  // Those who walk together wait for those who lag, who go first.
  EXPECT_LE(many.p99, 1.25 * one.p99);
}

}  // namespace
}  // namespace qgemm
