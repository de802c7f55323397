// SPDX-License-Identifier: Apache-2.0
//
// Mixes of rows as typed, and that classes come as often as their shares say.

#include "loadtest/workload/row_mix.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

RowMix Parse(absl::string_view text) {
  const auto mix = ParseRowMix(text);
  EXPECT_TRUE(mix.ok()) << mix.status();
  return mix.value_or(RowMix());
}

TEST(RowMix, IsOneRowUnlessToldOtherwise) {
  EXPECT_EQ(RowMix().classes().size(), 1);
  EXPECT_EQ(RowMix().classes()[0].rows, 1);
  EXPECT_EQ(RowMix().Pick(0.5), 0);
}

TEST(RowMix, ANumberAloneIsTheOnlyClass) {
  const RowMix mix = Parse("32");
  ASSERT_EQ(mix.classes().size(), 1);
  EXPECT_EQ(mix.classes()[0].rows, 32);
  EXPECT_EQ(mix.classes()[0].share, 1);
}

TEST(RowMix, MakesSharesOfWeights) {
  const RowMix mix = Parse("1:6,16:1.5,256:0.5");
  ASSERT_EQ(mix.classes().size(), 3);
  EXPECT_EQ(mix.classes()[0].share, 0.75);
  EXPECT_EQ(mix.classes()[1].share, 0.1875);
  EXPECT_EQ(mix.classes()[2].share, 0.0625);
  EXPECT_EQ(mix.mean_rows(), 0.75 + 3 + 16);
}

TEST(RowMix, AWeightLeftOutIsOne) {
  EXPECT_EQ(Parse("1,2:3").classes()[0].share, 0.25);
}

TEST(RowMix, PicksByTheSumsOfShares) {
  const RowMix mix = Parse("1:6,16:1.5,256:0.5");
  EXPECT_EQ(mix.Pick(0), 0);
  EXPECT_EQ(mix.Pick(0.75 - 0x1p-53), 0);
  EXPECT_EQ(mix.Pick(0.75), 1);
  EXPECT_EQ(mix.Pick(0.9375 - 0x1p-53), 1);
  EXPECT_EQ(mix.Pick(0.9375), 2);
  EXPECT_EQ(mix.Pick(1 - 0x1p-53), 2);
}

TEST(RowMix, RoundingLeavesNoGapAtTheEnd) {
  // Shares of 1/49 do not sum to 1 in doubles.
  std::string text = "1";
  for (int rows = 2; rows <= 49; ++rows) absl::StrAppend(&text, ",", rows);
  EXPECT_EQ(Parse(text).Pick(1 - 0x1p-53), 48);
}

TEST(ParseRowMix, RefusesAllElse) {
  for (const char* text :
       {"", "0", "-1", "x", "1048577", "1:0", "1:-1", "1:x", "1:nan", "1:inf",
        "1:2e9", "1,", ",1", "1:", "1:1:1", "1,1", "1:0.5,1:0.5"}) {
    const absl::Status status = ParseRowMix(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(
        absl::StrContains(status.message(), absl::StrCat("--m=", text, ":")))
        << status;
  }
}

TEST(ParseRowMix, NamesTheEntry) {
  EXPECT_TRUE(absl::StrContains(ParseRowMix("1:1,x:2").status().message(),
                                "\"x:2\": rows must be 1 to 1048576"));
}

}  // namespace
}  // namespace qgemm
