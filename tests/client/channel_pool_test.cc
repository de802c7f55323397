// SPDX-License-Identifier: Apache-2.0
//
// The choice as a table. What the pool makes of channels' states is
// several_servers_test's.

#include "client/channel_pool.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qgemm {
namespace {

ChannelState Ready(int64_t outstanding = 0) {
  ChannelState state;
  state.ready = true;
  state.outstanding = outstanding;
  return state;
}

ChannelState Tried(int64_t outstanding = 0) {
  ChannelState state = Ready(outstanding);
  state.tried = true;
  return state;
}

ChannelState Failing(int64_t outstanding = 0) {
  ChannelState state = Ready(outstanding);
  state.failing = true;
  return state;
}

ChannelState Broken(int64_t outstanding = 0) {
  ChannelState state;
  state.outstanding = outstanding;
  return state;
}

ChannelState TriedAndBroken() {
  ChannelState state = Tried();
  state.ready = false;
  return state;
}

ChannelState TriedAndFailing() {
  ChannelState state = Tried();
  state.failing = true;
  return state;
}

struct Case {
  std::string fact;
  std::vector<ChannelState> channels;
  size_t first;
  size_t chosen;
};

TEST(ChooseChannelTest, TakesTheBestOfEachTable) {
  const std::vector<Case> cases = {
      {"one is all there is", {Broken()}, 5, 0},
      {"the least work", {Ready(3), Ready(1), Ready(2)}, 0, 1},
      {"the least work, whoever's turn it is", {Ready(3), Ready(1)}, 2, 1},
      {"in turn among equals", {Ready(), Ready(), Ready()}, 1, 1},
      {"turns go on from the last to the first", {Ready(), Ready(5)}, 3, 0},
      {"turns count all channels", {Ready(), Ready(), Ready()}, 7, 1},
      {"connected before idle", {Broken(), Ready(900)}, 0, 1},
      {"untried before tried", {Tried(), Ready(900)}, 0, 1},
      {"healthy before failing", {Failing(), Ready(900)}, 0, 1},
      {"failing before tried", {Tried(), Failing(900)}, 0, 1},
      {"tried before unconnected", {Broken(), Tried(900)}, 0, 1},
      {"tried and failing before unconnected",
       {Broken(), TriedAndFailing()},
       0,
       1},
      {"of those that are not connected, an untried one",
       {TriedAndBroken(), Broken(7)},
       0,
       1},
      {"the least work among those that fail", {Failing(2), Failing(1)}, 0, 1},
      {"the least work among those not connected",
       {Broken(2), Broken(1)},
       0,
       1},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ChooseChannel(c.channels, c.first), c.chosen) << c.fact;
  }
}

}  // namespace
}  // namespace qgemm
