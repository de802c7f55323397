// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/batching_policy.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/matrix/backend.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

PolicyOptions Options(BatchOrder order = BatchOrder::kOldest) {
  PolicyOptions options;
  options.order = order;
  options.age_cap = absl::Milliseconds(1);
  options.deadline_slack = absl::Milliseconds(2);
  options.tile_rows = 16;
  return options;
}

QueueSnapshot Waits(absl::Duration waited) {
  QueueSnapshot queue;
  queue.rows = 1;
  queue.oldest = kNow - waited;
  return queue;
}

QueueSnapshot Waits(int64_t microseconds) {
  return Waits(absl::Microseconds(microseconds));
}

QueueSnapshot OfPriority(QueueSnapshot queue, Priority priority) {
  queue.priority = priority;
  return queue;
}

QueueSnapshot OfRows(QueueSnapshot queue, int64_t rows) {
  queue.rows = rows;
  return queue;
}

QueueSnapshot InChunks(QueueSnapshot queue) {
  queue.kind = LaunchKind::kChunk;
  queue.rows = 2048;
  return queue;
}

QueueSnapshot DueIn(QueueSnapshot queue, int64_t microseconds) {
  queue.earliest_deadline = kNow + absl::Microseconds(microseconds);
  return queue;
}

QueueSnapshot Behind(QueueSnapshot queue, int64_t layers) {
  queue.layers_behind = layers;
  return queue;
}

struct Case {
  std::string name;
  std::vector<QueueSnapshot> queues;
  int64_t chosen;
  LaunchReason reason = LaunchReason::kPreferred;
  LaunchReason last = LaunchReason::kPreferred;
  BatchOrder order = BatchOrder::kOldest;
};

constexpr auto kUrgent = LaunchReason::kUrgent;
constexpr auto kAged = LaunchReason::kAged;
constexpr auto kPreferred = LaunchReason::kPreferred;
constexpr auto kChase = BatchOrder::kChase;
constexpr auto kFullest = BatchOrder::kFullest;

std::vector<Case> Cases() {
  const QueueSnapshot high = OfPriority(Waits(1), Priority::kHigh);
  const QueueSnapshot low = OfPriority(Waits(900), Priority::kLow);
  const QueueSnapshot old_low = OfPriority(Waits(1000), Priority::kLow);
  return {
      {"OneQueueIsChosen", {Waits(1)}, 0},
      {"TheOldestGoesFirst", {Waits(1), Waits(3), Waits(2)}, 1},
      {"PriorityGoesBeforeAge", {low, Waits(500), high}, 2},
      {"AgeCapGoesBeforePriority", {high, old_low}, 1, kAged},
      {"OfTheAgedTheOldestGoesFirst", {old_low, Waits(1001)}, 1, kAged},
      {"AgeDoesNotDecideTwice", {high, old_low}, 0, kPreferred, kAged},
      {"AgeDecidesAfterADeadline", {high, old_low}, 1, kAged, kUrgent},
      {"FullTileGoesBeforeAge", {Waits(9), OfRows(Waits(1), 16)}, 1},
      {"LessThanATileDoesNot", {Waits(9), OfRows(Waits(1), 15)}, 0},
      {"OfFullTilesTheMostRowsGo",
       {OfRows(Waits(9), 16), OfRows(Waits(1), 40)},
       1},
      {"RowsOfChunksAreNoTile", {Waits(9), InChunks(Waits(1))}, 0},
      {"OlderChunkGoesFirst", {Waits(1), InChunks(Waits(9))}, 1},
      {"PriorityGoesBeforeAFullTile", {OfRows(Waits(9), 64), high}, 1},
      {"NearDeadlineGoesBeforeAll",
       {DueIn(low, 1999), high, old_low},
       0,
       kUrgent},
      {"DistantDeadlineDoesNot", {DueIn(Waits(1), 2000), Waits(2)}, 1},
      {"TheEarliestDeadlineGoesFirst",
       {DueIn(Waits(1), 100), DueIn(Waits(1), 50)},
       1,
       kUrgent},
      {"DeadlinesDoNotDecideTwiceBeforeTheAged",
       {DueIn(high, 100), old_low},
       1,
       kAged,
       kUrgent},
      {"DeadlinesDecideTwiceIfNothingIsAged",
       {DueIn(low, 100), high},
       0,
       kUrgent,
       kUrgent},
      {"OldestIgnoresLayers", {Behind(Waits(1), 1), Waits(2)}, 1},
      {"ChaseTakesTheClosestBehind",
       {Behind(Waits(5), 9), Behind(Waits(1), 2), Behind(Waits(3), 4)},
       1,
       kPreferred,
       kPreferred,
       kChase},
      {"ChaseTakesTheOldestOfEquallyClose",
       {Behind(Waits(1), 2), Behind(Waits(3), 2)},
       1,
       kPreferred,
       kPreferred,
       kChase},
      {"ChaseOfTheUnknownIsTheOldest",
       {Waits(1), Waits(2)},
       1,
       kPreferred,
       kPreferred,
       kChase},
      {"FullestTakesTheMostRows",
       {Waits(9), OfRows(Waits(1), 3), OfRows(Waits(5), 2)},
       1,
       kPreferred,
       kPreferred,
       kFullest},
      {"FullestTakesTheOldestOfEqualRows",
       {OfRows(Waits(1), 2), OfRows(Waits(3), 2)},
       1,
       kPreferred,
       kPreferred,
       kFullest},
      {"FullestTakesAChunkLast",
       {InChunks(Waits(9)), Waits(1)},
       1,
       kPreferred,
       kPreferred,
       kFullest},
      {"FullestKeepsTheAgeCap",
       {OfRows(Waits(1), 64), Waits(1000)},
       1,
       kAged,
       kPreferred,
       kFullest},
      {"ChaseKeepsTheAgeCap",
       {Behind(Waits(1), 1), Waits(1000)},
       1,
       kAged,
       kPreferred,
       kChase},
  };
}

class NextQueueTest : public testing::TestWithParam<Case> {};

TEST_P(NextQueueTest, Chooses) {
  const Case& row = GetParam();
  const std::optional<QueueChoice> choice =
      NextQueue(row.queues, {kNow, row.last, true}, Options(row.order));
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->queue, row.chosen);
  EXPECT_EQ(choice->reason, row.reason);
}

INSTANTIATE_TEST_SUITE_P(Table, NextQueueTest, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& row) {
                           return row.param.name;
                         });

TEST(NextQueueTest, NoQueuesHaveNoNext) {
  EXPECT_FALSE(NextQueue({}, {kNow, kPreferred, true}, Options()).has_value());
}

TEST(NextQueueTest, ChunksArePassedOverWhileTheyMayNotLaunch) {
  std::vector<QueueSnapshot> queues = {DueIn(InChunks(Waits(5000)), 1)};
  const DecisionContext turn = {kNow, kPreferred, false};
  EXPECT_FALSE(NextQueue(queues, turn, Options()).has_value());
  queues.push_back(Waits(1));
  const std::optional<QueueChoice> choice = NextQueue(queues, turn, Options());
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->queue, 1);
}

struct CutCase {
  std::string name;
  std::vector<int64_t> rows;
  int64_t kept;
};

class RequestsToLaunchTest : public testing::TestWithParam<CutCase> {};

TEST_P(RequestsToLaunchTest, CutsWhereTilesAreFull) {
  EXPECT_EQ(RequestsToLaunch(GetParam().rows, 16), GetParam().kept);
}

INSTANTIATE_TEST_SUITE_P(
    Table, RequestsToLaunchTest,
    testing::ValuesIn(std::vector<CutCase>{
        {"Nothing", {}, 0},
        {"OneRequestStaysWhole", {17}, 1},
        {"SingleRowsEndAtAMultiple", std::vector<int64_t>(50, 1), 48},
        {"WholeTilesStay", std::vector<int64_t>(64, 1), 64},
        {"NearlyFullTilesStay", std::vector<int64_t>(12, 5), 12},
        {"BarelyBegunTileIsLeft", {16, 16, 16, 2}, 3},
        {"NearlyFullTileStays", {16, 16, 16, 14}, 4},
        {"OneTileIsNotWorthALaunchIfMoreFit", {16, 17, 17, 13}, 4},
    }),
    [](const testing::TestParamInfo<CutCase>& row) { return row.param.name; });

struct TurnCase {
  std::string name;
  std::vector<int64_t> rows;
  int64_t clients;
  int64_t kept;
};

class RequestsOfTurnTest : public testing::TestWithParam<TurnCase> {};

TEST_P(RequestsOfTurnTest, LeavesWhatTheOtherTurnHasRoomFor) {
  const TurnCase& row = GetParam();
  EXPECT_EQ(RequestsOfTurn(row.rows, row.clients, 64), row.kept);
}

INSTANTIATE_TEST_SUITE_P(
    Table, RequestsOfTurnTest,
    testing::ValuesIn(std::vector<TurnCase>{
        {"Nothing", {}, 0, 0},
        {"HalfStays", std::vector<int64_t>(32, 1), 64, 32},
        {"MoreThanHalfIsCut", std::vector<int64_t>(40, 1), 64, 32},
        {"AllAreCutInHalf", std::vector<int64_t>(64, 1), 64, 32},
        {"MoreThanTwoTurnsHaveStay", std::vector<int64_t>(40, 1), 65, 40},
        {"UnknownClientsAreThoseThatWait", std::vector<int64_t>(40, 1), 0, 32},
        {"RowsCount", std::vector<int64_t>(5, 8), 8, 4},
        {"MoreRowsThanTwoTurnsHaveStay", std::vector<int64_t>(5, 8), 9, 5},
        {"ALargeFirstRequestStays", {40, 1}, 2, 2},
        {"ALargeRequestIsLeft", {1, 40}, 2, 1},
    }),
    [](const testing::TestParamInfo<TurnCase>& row) { return row.param.name; });

struct ChunkCase {
  std::string name;
  int64_t m;
  int64_t n;
  int64_t k;
  ChunkLimits limits;
  int64_t rows;
};

class ChunkRowsTest : public testing::TestWithParam<ChunkCase> {};

TEST_P(ChunkRowsTest, CutsWithinTheLimits) {
  const ChunkCase& row = GetParam();
  EXPECT_EQ(ChunkRows(row.m, row.n * row.k, row.limits), row.rows);
}

constexpr int64_t kLargest = (int64_t{1} << 31) - 1;

INSTANTIATE_TEST_SUITE_P(
    Table, ChunkRowsTest,
    testing::ValuesIn(std::vector<ChunkCase>{
        {"RowLimitIsReached", 2048, 4096, 4096, {512, 0}, 512},
        {"ChunksAreOfOneSize", 600, 4096, 4096, {512, 0}, 320},
        {"SmallRequestIsOneChunk", 65, 4096, 4096, {512, 0}, 96},
        {"WorkLimitIsReached", 2048, 1000, 1000, {512, 128'000'000}, 128},
        {"LimitsAreRoundedDownToTheAlignment", 960, 1, 1, {100, 0}, 96},
        {"WorkLimitLeavesTheLeast", 600, 4096, 4096, {512, 1, 128}, 128},
        {"FewerThanTheLeastAreOneChunk", 65, 4096, 4096, {512, 1, 128}, 96},
        {"OneAlignmentIsTheLeast", 640, kLargest, kLargest, {512, 1}, 32},
    }),
    [](const testing::TestParamInfo<ChunkCase>& row) {
      return row.param.name;
    });

TEST(ChunkRowsTest, ChunksStayWithinTheLimitsAndTheAlignment) {
  RandomGenerator random(FreshSeed());
  for (int i = 0; i < 10'000; ++i) {
    const int64_t m = RandomInt(1, 20'000, &random);
    const int64_t n = RandomInt(1, 30'000, &random);
    const int64_t k = RandomInt(1, 30'000, &random);
    const ChunkLimits limits = {RandomInt(32, 2048, &random),
                                RandomInt(1, 1'000'000'000'000, &random)};
    const int64_t rows = ChunkRows(m, n * k, limits);
    SCOPED_TRACE(testing::Message()
                 << m << " " << n << " " << k << ": " << rows);
    ASSERT_GT(rows, 0);
    ASSERT_EQ(rows % kChunkRowAlignment, 0);
    if (rows > kChunkRowAlignment) {
      ASSERT_LE(rows, limits.max_rows);
      ASSERT_LE(rows * n * k, limits.max_multiply_adds);
    }
  }
}

class Weights final : public ResidentWeights {
 public:
  Weights(int64_t n, int64_t k) : ResidentWeights(n, k) {}
  int64_t resident_bytes() const override { return 0; }
};

AdmittedRequest RequestOf(int64_t m, int64_t n, int64_t k) {
  AdmittedRequest request;
  request.weights = std::make_shared<Weights>(n, k);
  request.m = m;
  return request;
}

TEST(RowsPerLaunchTest, OrdinaryLayersAreCutAsWithoutTheBound) {
  BatchingOptions options;
  options.chunks.max_multiply_adds = 4'000'000'000;
  BatchingOptions bounded = options;
  bounded.max_multiply_adds = 200 * options.chunks.max_multiply_adds;
  for (const int64_t m : {1, 64, 65, 1000, 8192}) {
    const AdmittedRequest request = RequestOf(m, 28672, 8192);
    EXPECT_EQ(RowsPerLaunch(request, bounded), RowsPerLaunch(request, options));
    EXPECT_EQ(KindOf(request, bounded), KindOf(request, options));
  }
}

TEST(RowsPerLaunchTest, HugeLayersAreCutToTheBoundOrOneRow) {
  BatchingOptions options;
  options.max_multiply_adds = 7 * 4096 * 8192;
  EXPECT_EQ(RowsPerLaunch(RequestOf(7, 4096, 8192), options), 7);
  EXPECT_EQ(RowsPerLaunch(RequestOf(8, 4096, 8192), options), 7);
  EXPECT_EQ(RowsPerLaunch(RequestOf(1000, 4096, 8192), options), 7);
  EXPECT_EQ(RowsPerLaunch(RequestOf(8, 65536, 8192), options), 1);
  EXPECT_EQ(MergedRows(RequestOf(1, 4096, 8192), options), 7);
  EXPECT_EQ(MergedRows(RequestOf(1, 65536, 8192), options), 1);
}

TEST(RowCostTest, RowsOfAnEightBillionModelAreOrdinary) {
  EXPECT_EQ(RowCost(RequestOf(7, 1, 1)), 1);
  EXPECT_EQ(RowCost(RequestOf(7, 4096, 14336)), 1);
  EXPECT_EQ(RowCost(RequestOf(7, 8192, 8192)), 1);
  EXPECT_EQ(RowCost(RequestOf(1, 8192, 8193)), 2);
  EXPECT_EQ(RowCost(RequestOf(1, 65536, 65536)), 64);
}

TEST(LaunchesAloneTest, HeavyRowsDoWhereClientsChaseOneAnother) {
  const AdmittedRequest heavy = RequestOf(1, 8192, 8193);
  EXPECT_FALSE(LaunchesAlone(heavy, BatchOrder::kOldest));
  EXPECT_TRUE(LaunchesAlone(heavy, BatchOrder::kChase));
  EXPECT_FALSE(LaunchesAlone(heavy, BatchOrder::kFullest));
  EXPECT_FALSE(LaunchesAlone(RequestOf(1, 8192, 8192), BatchOrder::kChase));
}

TEST(RowCostTest, ALaunchCostsATileOfTheRowsThatItMayHave) {
  BatchingOptions options;
  const AdmittedRequest heavy = RequestOf(1, 65536, 65536);
  EXPECT_EQ(LeastLaunchCost(RequestOf(1, 96, 64), options, 16), 16);
  EXPECT_EQ(LeastLaunchCost(heavy, options, 16), 16 * 64);
  options.max_multiply_adds = 3 * heavy.row_multiply_adds();
  EXPECT_EQ(LeastLaunchCost(heavy, options, 16), 3 * 64);
  options.max_multiply_adds = 1;
  EXPECT_EQ(LeastLaunchCost(RequestOf(1, 96, 64), options, 16), 16);
}

TEST(RowsPerLaunchTest, EveryLaunchStartsAtAMultipleOf64Bytes) {
  RandomGenerator random(FreshSeed());
  for (int i = 0; i < 10'000; ++i) {
    const AdmittedRequest request =
        RequestOf(RandomInt(1, 300, &random), RandomInt(1, 3000, &random),
                  RandomInt(1, 3000, &random));
    BatchingOptions options;
    options.max_multiply_adds = RandomInt(1, 100'000'000, &random);
    const int64_t rows = RowsPerLaunch(request, options);
    const int64_t n = request.weights->n();
    const int64_t k = request.weights->k();
    SCOPED_TRACE(testing::Message()
                 << request.m << " " << n << " " << k << ": " << rows);
    ASSERT_GT(rows, 0);
    if (rows >= request.m) continue;
    ASSERT_EQ(rows * k * SizeOf(request.signature.a_type) % 64, 0);
    ASSERT_EQ(rows * n * SizeOf(request.signature.c_type) % 64, 0);
    if (rows > kChunkRowAlignment) {
      ASSERT_LE(rows * n * k, options.max_multiply_adds);
    }
  }
}

}  // namespace
}  // namespace qgemm
