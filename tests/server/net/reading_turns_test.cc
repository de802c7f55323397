// SPDX-License-Identifier: Apache-2.0
//
// A thread's rounds with connections whose reads cost what a test says.

#include "server/net/reading_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;
using ::testing::SizeIs;

constexpr Reader kOne = {1, 1};
constexpr int64_t kKib = int64_t{1} << 10;

// A thread that always has bytes of all its connections.
class Rounds {
 public:
  // `count` connections of a client, whose KiB takes so long to handle.
  void Connect(uint64_t client, int count, absl::Duration kib) {
    for (int i = 0; i < count; ++i) {
      readers_.push_back({readers_.size() + 1, client});
      kib_.push_back(kib);
    }
  }

  // The connections that are read in a round; at least a request of 512 bytes.
  std::vector<uint64_t> Run() {
    turns_.BeginRound();
    start_ = clock_.Now();
    std::vector<uint64_t> read;
    absl::Duration taken;
    for (size_t i = 0; i < readers_.size(); ++i) {
      const int64_t bytes = turns_.Allow(readers_[i]);
      if (bytes == 0) continue;
      turns_.Add(readers_[i], bytes);
      bytes_[readers_[i].client] += bytes;
      read.push_back(readers_[i].connection);
      taken += kib_[i] * static_cast<double>(bytes) / kKib;
    }
    clock_.Advance(taken);
    return read;
  }

  absl::Duration last() const { return clock_.Now() - start_; }
  int64_t kib(uint64_t client) const { return bytes_.at(client) / kKib; }

 private:
  FakeClock clock_;
  ReadingTurns turns_{&clock_, &clock_};
  std::vector<Reader> readers_;
  std::vector<absl::Duration> kib_;
  std::map<uint64_t, int64_t> bytes_;
  absl::Time start_;
};

TEST(ReadingTurnsTest, CheapConnectionsAreReadInOneRound) {
  Rounds rounds;
  rounds.Connect(/*client=*/1, 16, absl::Microseconds(1));
  for (int i = 0; i < 20; ++i) EXPECT_THAT(rounds.Run(), SizeIs(16));
}

TEST(ReadingTurnsTest, RoundOfCostlyConnectionsIsShortOnceTheyAreKnown) {
  Rounds rounds;
  rounds.Connect(/*client=*/1, 500, absl::Milliseconds(1));
  rounds.Run();
  EXPECT_LE(rounds.last(), absl::Milliseconds(16 * 4));
  for (int i = 0; i < 50; ++i) rounds.Run();
  for (int i = 0; i < 100; ++i) {
    rounds.Run();
    EXPECT_LE(rounds.last(), absl::Milliseconds(3));
  }
}

TEST(ReadingTurnsTest, NoConnectionIsLeftOut) {
  Rounds rounds;
  rounds.Connect(/*client=*/1, 100, absl::Milliseconds(1));
  std::map<uint64_t, int> turns;
  for (int i = 0; i < 1000; ++i) {
    for (const uint64_t connection : rounds.Run()) ++turns[connection];
  }
  EXPECT_THAT(turns, SizeIs(100));
  for (const auto& [connection, count] : turns) {
    EXPECT_GE(count, 5) << "connection " << connection;
  }
}

TEST(ReadingTurnsTest, ClientWithLittleTimeComesNextRoundAtTheLatest) {
  Rounds rounds;
  rounds.Connect(/*client=*/1, 500, absl::Milliseconds(1));
  rounds.Connect(/*client=*/2, 1, absl::Microseconds(20));
  for (int i = 0; i < 10; ++i) rounds.Run();
  bool waited = false;
  for (int i = 0; i < 500; ++i) {
    const std::vector<uint64_t> read = rounds.Run();
    const bool waits = std::find(read.begin(), read.end(), 501) == read.end();
    EXPECT_FALSE(waits && waited) << "round " << i;
    waited = waits;
  }
}

TEST(ReadingTurnsTest, ClientsHaveTheSameTimeWhateverTheirConnections) {
  Rounds rounds;
  rounds.Connect(/*client=*/1, 200, absl::Milliseconds(1));
  rounds.Connect(/*client=*/2, 2, absl::Milliseconds(1));
  for (int i = 0; i < 3000; ++i) rounds.Run();
  const double share = static_cast<double>(rounds.kib(2)) /
                       static_cast<double>(rounds.kib(1) + rounds.kib(2));
  EXPECT_THAT(share, AllOf(Ge(0.4), Le(0.6)));
}

TEST(ReadingTurnsTest, TurnGrowsWithWhatIsCheapAndHasAnEnd) {
  FakeClock clock;
  ReadingTurns turns(&clock, &clock);
  int64_t bytes = 0;
  for (int i = 0; i < 40; ++i) {
    turns.BeginRound();
    bytes = 0;
    while (const int64_t allowed = turns.Allow(kOne)) {
      turns.Add(kOne, allowed);
      bytes += allowed;
    }
    clock.Advance(absl::Nanoseconds(300) * (bytes / kKib));
  }
  EXPECT_EQ(bytes, 256 * kKib);
}

TEST(ReadingTurnsTest, LargeTurnEndsWithTheRoundsTime) {
  FakeClock clock;
  ReadingTurns turns(&clock, &clock);
  for (int i = 0; i < 20; ++i) {  // of which nothing takes time
    turns.Add(kOne, turns.Allow(kOne));
    turns.BeginRound();
  }
  turns.Add({2, 1}, turns.Allow({2, 1}));  // its client's large read
  turns.Add(kOne, turns.Allow(kOne));
  clock.Advance(absl::Microseconds(1999));
  EXPECT_EQ(turns.Allow(kOne), 240 * kKib);
  clock.Advance(absl::Microseconds(1));
  EXPECT_EQ(turns.Allow(kOne), 0);
}

TEST(ReadingTurnsTest, TimeThatTheThreadDidNotRunCostsNobody) {
  FakeClock clock;
  const FakeClock run_clock;
  ReadingTurns turns(&clock, &run_clock);
  for (int i = 0; i < 20; ++i) {
    const int64_t bytes = turns.Allow(kOne);
    turns.Add(kOne, bytes);
    clock.Advance(absl::Milliseconds(50));
    turns.BeginRound();
  }
  EXPECT_EQ(turns.Allow(kOne), 256 * kKib);
}

TEST(ReadingTurnsTest, OneConnectionARoundIsTornDownAndThenWhoWaitedLongest) {
  FakeClock clock;
  ReadingTurns turns(&clock, &clock);
  EXPECT_TRUE(turns.AllowEnd(kOne));
  EXPECT_FALSE(turns.AllowEnd({2, 1}));
  EXPECT_FALSE(turns.AllowEnd({3, 1}));
  turns.BeginRound();
  EXPECT_TRUE(turns.AllowEnd({3, 1}));
  EXPECT_TRUE(turns.AllowEnd({2, 1}));
  EXPECT_FALSE(turns.AllowEnd({4, 1}));
}

TEST(ReadingTurnsTest, NewConnectionOfAClientCostsWhatItsOthersDid) {
  FakeClock clock;
  ReadingTurns turns(&clock, &clock);
  for (int i = 0; i < 20; ++i) {
    const int64_t bytes = turns.Allow(kOne);
    turns.Add(kOne, bytes);
    clock.Advance(absl::Milliseconds(1) * static_cast<double>(bytes) / kKib);
    turns.BeginRound();
  }
  EXPECT_EQ(turns.Allow({2, 1}), kKib);
}

}  // namespace
}  // namespace qgemm
