// SPDX-License-Identifier: Apache-2.0
//
// ParseLoadtestOptions: how many lanes and connections a load has.

#include <gtest/gtest.h>

#include "loadtest/options.h"
#include "tests/loadtest/loadtest_flags_fixture.h"

namespace qgemm {
namespace {

struct LaneCase {
  int cpus;
  int threads;
  int channels;
  int concurrency;
  int expected_lanes;
  int expected_channels;
};

TEST(ParseLoadtestOptionsTest, LanesAndChannelsFitEachOther) {
  for (const LaneCase& each :
       {LaneCase{1, 0, 0, 64, 1, 1}, LaneCase{16, 0, 0, 64, 4, 4},
        LaneCase{256, 0, 0, 64, 8, 8}, LaneCase{16, 0, 0, 3, 3, 3},
        LaneCase{16, 6, 0, 64, 6, 6}, LaneCase{16, 6, 0, 2, 2, 2},
        LaneCase{16, 3, 7, 64, 3, 9}, LaneCase{16, 3, 2, 64, 3, 3},
        LaneCase{16, 64, 256, 100, 64, 256}}) {
    LoadtestFlags flags = ValidFlags();
    flags.threads = each.threads;
    flags.channels = each.channels;
    flags.concurrency = each.concurrency;
    const LoadtestOptions options = Parse(flags, Host(each.cpus));
    EXPECT_EQ(options.lanes, each.expected_lanes);
    EXPECT_EQ(options.channels, each.expected_channels);
  }
}

TEST(ParseLoadtestOptionsTest, LanesAreNotMoreThanOpenArrivalsInFlight) {
  // Each lane sends arrivals and has one of them in flight, or more.
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->rate = "100";
    flags->concurrency = 2;
    flags->prefill_clients = 10;
    flags->threads = 8;
  });
  EXPECT_EQ(options.lanes, 2);
}

TEST(ParseLoadtestOptionsTest, PrefillClientsHaveALaneOfTheirOwnBesideThese) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->concurrency = 1;
    flags->prefill_clients = 3;
    flags->threads = 8;
  });
  EXPECT_EQ(options.lanes, 1);
}

TEST(ParseLoadtestOptionsTest, ASearchOfRatesHasLanesForOpenArrivals) {
  const LoadtestOptions peak = ParseWith([](LoadtestFlags* flags) {
    flags->find_peak = true;
    flags->slo = "p99=1ms";
    flags->threads = 4;
  });
  EXPECT_EQ(peak.lanes, 4);
  const LoadtestOptions sweep = ParseWith([](LoadtestFlags* flags) {
    flags->sweep = "rate=100,200";
    flags->threads = 4;
  });
  EXPECT_EQ(sweep.lanes, 4);
}

TEST(ParseLoadtestOptionsTest, ASweepOfConcurrencyHasLanesForItsLargest) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->sweep = "concurrency=1,16,3";
    flags->threads = 8;
  });
  EXPECT_EQ(options.lanes, 8);
}

TEST(ParseLoadtestOptionsTest, ASearchKeepsTheConcurrencyThatWasAskedFor) {
  LoadtestFlags flags = ValidFlags();
  flags.find_peak = true;
  flags.slo = "p99=1ms";
  flags.threads = 8;
  EXPECT_EQ(Parse(flags).lanes, 8);  // of the most in flight by default
  flags.concurrency = 4;
  EXPECT_EQ(Parse(flags).lanes, 4);
  EXPECT_EQ(Parse(flags).arrivals.concurrency, 4);
}

}  // namespace
}  // namespace qgemm
