// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/plan/recurring_places.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

constexpr int kBefore = RecurringPlaces::kTimesBefore;
constexpr int kMax = RecurringPlaces::kMax;

// Memory of requests that tests tell apart.
uint8_t memory[256];

RequestPlace PlaceOf(int number, int64_t m = 1) {
  return {memory + number, memory + 128 + number, m};
}

// Observes the places [first, first + count) in turn, so many times; returns
// how often one of them came again.
int Rounds(RecurringPlaces* places, int first, int count, int rounds) {
  int recurring = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < count; ++i) {
      if (places->Observe(PlaceOf(first + i))) ++recurring;
    }
  }
  return recurring;
}

TEST(RecurringPlacesTest, APlaceRecursFromItsNinthTimeOn) {
  RecurringPlaces places;
  EXPECT_EQ(Rounds(&places, 0, 1, kBefore), 0);
  EXPECT_EQ(Rounds(&places, 0, 1, 5), 5);
}

TEST(RecurringPlacesTest, TellsSomeApart) {
  RecurringPlaces places;
  EXPECT_EQ(Rounds(&places, 0, kMax, kBefore), 0);
  EXPECT_EQ(Rounds(&places, 0, kMax, 2), 2 * kMax);
}

TEST(RecurringPlacesTest, MoreInTurnNeverRecur) {
  RecurringPlaces places;
  EXPECT_EQ(Rounds(&places, 0, kMax + 1, 3 * kBefore), 0);
}

TEST(RecurringPlacesTest, OneThatComesOftenStaysBesideOthersThatDoNot) {
  RecurringPlaces places;
  Rounds(&places, 0, 1, kBefore);
  for (int other = 1; other < 100; ++other) {
    EXPECT_FALSE(places.Observe(PlaceOf(other)));
    EXPECT_TRUE(places.Observe(PlaceOf(0)));
  }
}

TEST(RecurringPlacesTest, AllOfAPlaceCounts) {
  RecurringPlaces places;
  Rounds(&places, 0, 1, kBefore);
  EXPECT_FALSE(places.Observe(PlaceOf(0, 2)));
  EXPECT_FALSE(places.Observe({memory, memory + 129, 1}));
  EXPECT_FALSE(places.Observe({memory + 1, memory + 128, 1}));
  EXPECT_TRUE(places.Observe(PlaceOf(0)));
}

}  // namespace
}  // namespace qgemm::cuda
