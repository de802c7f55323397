// SPDX-License-Identifier: Apache-2.0

#include "server/weights/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

// A layer of 10 bytes on the disk.
EvictionCandidate UsedAgo(absl::Duration ago) {
  EvictionCandidate layer;
  layer.bytes = 10;
  layer.last_use = kNow - ago;
  layer.is_on_disk = true;
  return layer;
}

std::vector<size_t> Choose(const std::vector<EvictionCandidate>& layers,
                           int64_t bytes) {
  return ChooseVictims(layers, bytes, kNow, {absl::Seconds(1)});
}

TEST(Eviction, TakesThoseUsedLongestAgoAndNoMoreThanNeeded) {
  const std::vector<EvictionCandidate> layers = {
      UsedAgo(absl::Seconds(5)), UsedAgo(absl::Seconds(9)),
      UsedAgo(absl::Seconds(7)), UsedAgo(absl::InfiniteDuration())};
  EXPECT_THAT(Choose(layers, 1), ElementsAre(3));
  EXPECT_THAT(Choose(layers, 10), ElementsAre(3));
  EXPECT_THAT(Choose(layers, 11), ElementsAre(3, 1));
  EXPECT_THAT(Choose(layers, 40), ElementsAre(3, 1, 2, 0));
  EXPECT_THAT(Choose(layers, 41), IsEmpty());
}

TEST(Eviction, LeavesWhatIsPinnedInUseOrNotOnTheDisk) {
  std::vector<EvictionCandidate> layers(4, UsedAgo(absl::Seconds(9)));
  layers[0].is_pinned = true;
  layers[1].is_in_use = true;
  layers[2].is_on_disk = false;
  EXPECT_THAT(Choose(layers, 10), ElementsAre(3));
  EXPECT_THAT(Choose(layers, 11), IsEmpty());
}

TEST(Eviction, LeavesWhatWasJustUsed) {
  const std::vector<EvictionCandidate> layers = {
      UsedAgo(absl::Milliseconds(999)), UsedAgo(absl::Seconds(1)),
      UsedAgo(-absl::Seconds(1))};
  EXPECT_THAT(Choose(layers, 10), ElementsAre(1));
  EXPECT_THAT(Choose(layers, 20), IsEmpty());
}

TEST(Eviction, NothingIsNeededForNothing) {
  EXPECT_THAT(Choose({UsedAgo(absl::Seconds(9))}, 0), IsEmpty());
  EXPECT_THAT(Choose({}, 1), IsEmpty());
}

RoomPlan Plan(const std::vector<EvictionCandidate>& layers, int64_t bytes) {
  return PlanRoom(layers, bytes, kNow, {absl::Seconds(1)});
}

TEST(RoomPlan, TakesWhatIsInUseAfterAllOthers) {
  std::vector<EvictionCandidate> layers = {
      UsedAgo(absl::Seconds(5)), UsedAgo(absl::Seconds(9)),
      UsedAgo(absl::Seconds(7)), UsedAgo(absl::Seconds(8))};
  layers[1].is_in_use = true;
  layers[3].is_in_use = true;
  EXPECT_THAT(Plan(layers, 11).victims, ElementsAre(2, 0));
  EXPECT_THAT(Plan(layers, 31).victims, ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(Plan(layers, 41).victims, IsEmpty());
  EXPECT_EQ(Plan(layers, 41).next, absl::InfiniteFuture());
}

TEST(RoomPlan, LeavesWhatStays) {
  std::vector<EvictionCandidate> layers(5, UsedAgo(absl::Seconds(9)));
  layers[0].is_pinned = true;
  layers[1].is_held = true;
  layers[2].is_on_disk = false;
  layers[3].leased_until = kNow + absl::Nanoseconds(1);
  EXPECT_THAT(Plan(layers, 10).victims, ElementsAre(4));
  EXPECT_THAT(Plan(layers, 11).victims, IsEmpty());
  EXPECT_EQ(Plan(layers, 11).next,
            kNow + absl::Nanoseconds(1));  // a lease's end
  layers[3].is_pinned = true;
  EXPECT_EQ(Plan(layers, 11).next, absl::InfiniteFuture());
  layers[3].is_pinned = false;
  EXPECT_EQ(StayingBytes(layers, kNow), 40);
  EXPECT_EQ(StayingBytes(layers, kNow + absl::Nanoseconds(1)), 30);
}

TEST(RoomPlan, WaitsUntilEnoughWasLeftAlone) {
  const std::vector<EvictionCandidate> layers = {
      UsedAgo(absl::Milliseconds(100)), UsedAgo(absl::Milliseconds(700)),
      UsedAgo(absl::Seconds(2)), UsedAgo(absl::Milliseconds(400))};
  EXPECT_THAT(Plan(layers, 10).victims, ElementsAre(2));
  EXPECT_THAT(Plan(layers, 11).victims, IsEmpty());
  EXPECT_EQ(Plan(layers, 11).next, kNow + absl::Milliseconds(300));
  EXPECT_EQ(Plan(layers, 30).next, kNow + absl::Milliseconds(600));
  EXPECT_EQ(Plan(layers, 40).next, kNow + absl::Milliseconds(900));
}

TEST(EvictionTest, ALeaseKeepsALayerUntilItsEnd) {
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EvictionCandidate leased;
  leased.bytes = 10;
  leased.is_on_disk = true;
  leased.leased_until = now + absl::Nanoseconds(1);
  const EvictionRule rule;
  EXPECT_TRUE(ChooseVictims({leased}, 10, now, rule).empty());
  leased.leased_until = now;
  EXPECT_EQ(ChooseVictims({leased}, 10, now, rule), std::vector<size_t>{0});
}

}  // namespace
}  // namespace qgemm
