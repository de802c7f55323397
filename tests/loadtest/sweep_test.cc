// SPDX-License-Identifier: Apache-2.0
//
// ParseSweep: lists and ranges of values.

#include "loadtest/sweep.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "loadtest/workload/row_mix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Sweep Parse(absl::string_view text) {
  const absl::StatusOr<Sweep> sweep = ParseSweep(text);
  EXPECT_TRUE(sweep.ok()) << sweep.status();
  return sweep.ok() ? *sweep : Sweep();
}

TEST(SweepTest, EmptyTextIsNoSweep) {
  EXPECT_THAT(Parse("").values, IsEmpty());
}

TEST(SweepTest, ReadsListsOfEachFlag) {
  const Sweep rate = Parse("rate=100,200.5");
  EXPECT_EQ(rate.flag, SweptFlag::kRate);
  EXPECT_THAT(rate.values, ElementsAre("100", "200.5"));
  const Sweep concurrency = Parse("concurrency=1,2,4");
  EXPECT_EQ(concurrency.flag, SweptFlag::kConcurrency);
  EXPECT_THAT(concurrency.values, ElementsAre("1", "2", "4"));
  const Sweep m = Parse("m=16");
  EXPECT_EQ(m.flag, SweptFlag::kM);
  EXPECT_THAT(m.values, ElementsAre("16"));
}

TEST(SweepTest, LabelsNameTheFlagAndTheValue) {
  EXPECT_EQ(Parse("rate=100,200").Label(1), "rate=200");
  EXPECT_EQ(Parse("concurrency=3").Label(0), "concurrency=3");
  EXPECT_EQ(Parse("m=4,8").Label(0), "m=4");
}

TEST(SweepTest, RangesAreEvenOnALogScale) {
  EXPECT_THAT(Parse("concurrency=1..64/7").values,
              ElementsAre("1", "2", "4", "8", "16", "32", "64"));
  EXPECT_THAT(Parse("rate=1000..8000/4").values,
              ElementsAre("1000", "2000", "4000", "8000"));
}

TEST(SweepTest, RatesOfARangeHaveThreeDigits) {
  EXPECT_THAT(Parse("rate=100..1000/4").values,
              ElementsAre("100", "215", "464", "1000"));
  EXPECT_THAT(Parse("rate=0.01..1/3").values, ElementsAre("0.01", "0.1", "1"));
}

TEST(SweepTest, RangesOfWholeNumbersLeaveOutRepeats) {
  EXPECT_THAT(Parse("m=1..4/10").values, ElementsAre("1", "2", "3", "4"));
}

TEST(SweepTest, EveryValueOfARangeIsOneThatItsFlagTakes) {
  for (const std::string& value : Parse("m=1..1048576/21").values) {
    EXPECT_TRUE(ParseRowMix(value).ok()) << value;
  }
  for (const std::string& value : Parse("m=0.2..3/5").values) {
    EXPECT_TRUE(ParseRowMix(value).ok()) << value;
  }
  for (const std::string& value : Parse("concurrency=1..65536/17").values) {
    int number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(value, &number) && number > 0) << value;
  }
  for (const std::string& value : Parse("rate=0.001..10000000/100").values) {
    double number = 0;
    EXPECT_TRUE(absl::SimpleAtod(value, &number) && number > 0) << value;
  }
}

// A range's values are within half a unit of their third digit, at most 1/200,
// of the exact ones.
TEST(SweepTest, ARangeKeepsItsRatioToThreeDigits) {
  const Sweep sweep = Parse("rate=37..91000/100");
  ASSERT_EQ(sweep.values.size(), 100);
  for (size_t i = 0; i < sweep.values.size(); ++i) {
    double value = 0;
    ASSERT_TRUE(absl::SimpleAtod(sweep.values[i], &value));
    const double exact = 37 * std::pow(91000.0 / 37, i / 99.0);
    EXPECT_NEAR(value, exact, exact / 200);
  }
}

TEST(SweepTest, RefusesWhatIsNoSweep) {
  std::string many = "rate=1";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&many, ",1");
  for (const std::string& text : std::vector<std::string>{
           "rate",          "rate=",         "rate=,",        "=1",
           "rows=1,2",      "Rate=1",        "rate=1..2",     "rate=1../3",
           "rate=..2/3",    "rate=2..1/3",   "rate=1..1/3",   "rate=0..1/3",
           "rate=-1..1/3",  "rate=1..2/1",   "rate=1..2/101", "rate=1..2/x",
           "rate=1..inf/3", "rate=nan..2/3", "rate=1..nan/3", many}) {
    const absl::Status status = ParseSweep(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--sweep=")) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("legal are")) << text;
  }
}

TEST(SweepTest, ARefusalRepeatsTheWholeValue) {
  EXPECT_THAT(std::string(ParseSweep("rate=2..1/3").status().message()),
              HasSubstr("--sweep=rate=2..1/3"));
}

}  // namespace
}  // namespace qgemm
