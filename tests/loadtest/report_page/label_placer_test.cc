// SPDX-License-Identifier: Apache-2.0
//
// Room for words.

#include "loadtest/report/page/label_placer.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr Box kArea = {0, 0, 100, 100};

TEST(TextWidth, GrowsWithTextAndFont) {
  EXPECT_EQ(TextWidth("", 12), 0);
  EXPECT_LT(TextWidth("p50", 12), TextWidth("p50 1 ms", 12));
  EXPECT_DOUBLE_EQ(2 * TextWidth("p50", 12), TextWidth("p50", 24));
}

TEST(TextWidth, CountsCharactersNotBytes) {
  EXPECT_LT(TextWidth("µ", 12), 12);
  EXPECT_GT(TextWidth("\xff\xff", 12), 0);
}

TEST(FittedText, IsTheTextIfThereIsRoom) {
  EXPECT_EQ(FittedText("p50", 12, TextWidth("p50", 12)), "p50");
}

TEST(FittedText, EndsWithAnEllipsisWithinItsRoom) {
  for (const double room : {12.0, 40.0, 80.0}) {
    const std::string text = FittedText("µµµ a rather long name", 12, room);
    EXPECT_LE(TextWidth(text, 12), room);
    EXPECT_EQ(text.substr(text.size() - 3), "…");
  }
}

TEST(Box, OverlapsWhatSharesAnAreaNotAnEdge) {
  const Box box = {0, 0, 10, 10};
  EXPECT_TRUE(box.Overlaps({9, 9, 20, 20}));
  EXPECT_FALSE(box.Overlaps({10, 0, 20, 10}));
}

TEST(LabelPlacer, TakesTheFirstFreeCandidate) {
  LabelPlacer placer(kArea);
  placer.Occupy({0, 0, 20, 20});
  const std::optional<Box> box =
      placer.Place({{10, 10, 30, 20}, {30, 30, 50, 40}, {60, 60, 80, 70}});
  ASSERT_TRUE(box.has_value());
  EXPECT_EQ(box->left, 30);
}

TEST(LabelPlacer, NeverPlacesTwiceOnTheSameSpot) {
  LabelPlacer placer(kArea);
  EXPECT_TRUE(placer.Place({{10, 10, 30, 20}}));
  EXPECT_FALSE(placer.Place({{15, 10, 35, 20}}));
}

TEST(LabelPlacer, StaysWithinItsArea) {
  LabelPlacer placer(kArea);
  EXPECT_FALSE(placer.Place({{90, 10, 101, 20}}));
  EXPECT_FALSE(placer.Place({}));
}

TEST(LabelPlacer, PrefersCandidatesThatCoverFewerSpots) {
  LabelPlacer placer(kArea);
  placer.Avoid({12, 12});
  const std::optional<Box> box =
      placer.Place({{10, 10, 30, 20}, {40, 40, 60, 50}});
  ASSERT_TRUE(box.has_value());
  EXPECT_EQ(box->left, 40);
}

TEST(LabelPlacer, CoversSpotsRatherThanLeavingALabelOut) {
  LabelPlacer placer(kArea);
  placer.Avoid({12, 12});
  EXPECT_TRUE(placer.Place({{10, 10, 30, 20}}));
}

}  // namespace
}  // namespace qgemm
