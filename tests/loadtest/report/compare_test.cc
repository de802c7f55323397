// SPDX-License-Identifier: Apache-2.0
//
// What is called a difference between two reports, and what is warned of.

#include "loadtest/report/compare.h"

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "loadtest/report/comparison_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kBlocks = 60;

// As the engine rounds for blocks: to seven binary digits.
int64_t RoundedDown(int64_t value) {
  int shift = 0;
  while (value >> shift >= 128) ++shift;
  return value >> shift << shift;
}

// One class of m = 4. Counts a block are Poisson, latencies are lognormal about
// `median_ns`; a block of 100 ms is an interval of the series, too.
RunResult RandomRun(double median_ns, std::mt19937_64* random) {
  RunResult run;
  run.classes.push_back({"m=4", 4, {}, {}});
  std::poisson_distribution<int> count(100);
  std::lognormal_distribution<double> latency(std::log(median_ns), 0.3);
  for (int block = 0; block < kBlocks; ++block) {
    SeriesPoint& point = run.series.emplace_back();
    point.start = block * absl::Milliseconds(100);
    point.length = absl::Milliseconds(100);
    point.answers = count(*random);
    point.rows = 4 * point.answers;
    point.launch_rows = 8 + 0.01 * static_cast<double>(point.answers);
    Histogram& values = run.blocks_ns.emplace_back();
    for (int64_t i = 0; i < point.answers; ++i) {
      const auto value = static_cast<int64_t>(latency(*random));
      values.Record(RoundedDown(value));
      run.classes[0].latency_ns.Record(value);
    }
    run.answers += point.answers;
    run.rows += point.rows;
    run.server.launch_rows.Record(9, point.answers);
  }
  run.measured = kBlocks * absl::Milliseconds(100);
  run.due_time = run.measured;
  run.client_cpu = absl::Microseconds(20) * run.answers;
  run.server_cpu = absl::Microseconds(30) * run.answers;
  return run;
}

LoadtestReport ReportOf(const RunResult& run) {
  LoadtestReport report;
  report.runs.push_back(run);
  return report;
}

const ComparisonRow& RowNamed(const Comparison& comparison,
                              absl::string_view name) {
  for (const ComparisonRow& row : comparison.runs.at(0).rows) {
    if (row.name == name) return row;
  }
  ADD_FAILURE() << "no row " << name;
  return comparison.runs.at(0).rows.at(0);
}

// The smallest bound that more of `trials` exceed with less than `chance`, if
// each does something with probability `p`.
int BinomialBound(int trials, double p, double chance) {
  double tail = 1;
  int bound = -1;
  double probability = std::pow(1 - p, trials);  // of exactly bound + 1
  while (tail >= chance) {
    ++bound;
    tail -= probability;
    probability *= p / (1 - p) * (trials - bound) / (bound + 1);
  }
  return bound;
}

class CompareTest : public testing::Test {
 protected:
  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  std::mt19937_64 random_{seed_};
};

TEST_F(CompareTest, EqualRunsDifferInAboutOneOfTwentyTrials) {
  constexpr int kTrials = 100;
  std::map<std::string, int> differences;
  for (int trial = 0; trial < kTrials; ++trial) {
    const LoadtestReport a = ReportOf(RandomRun(1e5, &random_));
    const LoadtestReport b = ReportOf(RandomRun(1e5, &random_));
    const Comparison comparison = Compare(a, b);
    for (const ComparisonRow& row : comparison.runs.at(0).rows) {
      if (!row.interval.has_value()) continue;
      if (row.judgement != Judgement::kNoDifferenceShown) {
        ++differences[row.name];
      }
    }
  }
  // Seven rows: one run in 10^5 fails by chance.
  const int bound = BinomialBound(kTrials, 0.05, 1e-6);
  for (const auto& [name, count] : differences) {
    EXPECT_LE(count, bound) << name;
  }
  // None at all would be 0.95^200 for each independent row.
  EXPECT_THAT(differences, Not(IsEmpty()));
}

TEST_F(CompareTest, FindsATenthMoreLatency) {
  // 6000 answers a side of deviation 0.3: standard errors of the ratio are
  // 0.3 * sqrt(2 / 6000) = 0.55 % for the mean, times sqrt(pi / 2) for the
  // median, times 1.71 for p90: a tenth is ten of them or more, and the
  // interval takes two.
  const LoadtestReport a = ReportOf(RandomRun(1.0e5, &random_));
  const LoadtestReport b = ReportOf(RandomRun(1.1e5, &random_));
  const Comparison slower = Compare(a, b);
  const Comparison faster = Compare(b, a);
  for (absl::string_view name : {"p50 us", "p90 us", "mean us"}) {
    const ComparisonRow& row = RowNamed(slower, name);
    EXPECT_EQ(row.judgement, Judgement::kSlower) << name;
    EXPECT_EQ(RowNamed(faster, name).judgement, Judgement::kFaster) << name;
    ASSERT_TRUE(row.interval.has_value());
    EXPECT_LE(row.interval->low, *row.ratio);
    EXPECT_GE(row.interval->high, *row.ratio);
  }
}

TEST_F(CompareTest, MoreAnswersAreFaster) {
  const RunResult once = RandomRun(1e5, &random_);
  RunResult twice = once;
  for (Histogram& block : twice.blocks_ns) {
    const Histogram copy = block;
    block.Merge(copy);
  }
  twice.answers *= 2;
  twice.rows *= 2;
  const Comparison comparison = Compare(ReportOf(once), ReportOf(twice));
  const ComparisonRow& answers = RowNamed(comparison, "answers/s");
  EXPECT_DOUBLE_EQ(*answers.ratio, 2);
  EXPECT_EQ(answers.judgement, Judgement::kFaster);
  EXPECT_EQ(RowNamed(comparison, "rows/s").judgement, Judgement::kFaster);
}

TEST_F(CompareTest, RowsALaunchAreMoreOrLessNotFaster) {
  const RunResult a = RandomRun(1e5, &random_);
  RunResult b = a;
  b.server.launch_rows.Clear();
  b.server.launch_rows.Record(18);
  for (SeriesPoint& point : b.series) point.launch_rows *= 2;
  EXPECT_EQ(
      RowNamed(Compare(ReportOf(a), ReportOf(b)), "rows a launch").judgement,
      Judgement::kMore);
  EXPECT_EQ(
      RowNamed(Compare(ReportOf(b), ReportOf(a)), "rows a launch").judgement,
      Judgement::kLess);
}

TEST_F(CompareTest, RowsOfSeveralClassesAreDrawnFromTheSeries) {
  RunResult run = RandomRun(1e5, &random_);
  run.classes.push_back({"m=1", 1, {}, {}});
  const Comparison comparison = Compare(ReportOf(run), ReportOf(run));
  EXPECT_TRUE(RowNamed(comparison, "rows/s").interval.has_value());
  run.series.clear();
  const Comparison without = Compare(ReportOf(run), ReportOf(run));
  EXPECT_EQ(RowNamed(without, "rows/s").why_no_interval,
            "0 and 0 stretches of the series, at least 5 needed");
}

TEST_F(CompareTest, SaysWhyThereIsNoInterval) {
  RunResult few = RandomRun(1e5, &random_);
  few.blocks_ns.resize(4);
  const RunResult enough = RandomRun(1e5, &random_);
  const Comparison comparison = Compare(ReportOf(few), ReportOf(enough));
  const ComparisonRow& row = RowNamed(comparison, "p50 us");
  EXPECT_TRUE(row.ratio.has_value());
  EXPECT_FALSE(row.interval.has_value());
  EXPECT_EQ(row.judgement, Judgement::kNone);
  EXPECT_EQ(row.why_no_interval, "4 and 60 blocks, at least 5 needed");
  EXPECT_EQ(RowNamed(comparison, "client cpu us a request").why_no_interval,
            "one figure a run");
  EXPECT_THAT(FormatComparison(comparison),
              HasSubstr("no interval: 4 and 60 blocks, at least 5 needed\n"));
}

TEST_F(CompareTest, APercentileNeedsAnswersAboveIt) {
  const RunResult run = RandomRun(1e5, &random_);
  // About 6000 answers: 6 above.
  const Comparison comparison = Compare(ReportOf(run), ReportOf(run));
  EXPECT_FALSE(RowNamed(comparison, "p99.9 us").interval.has_value());
  EXPECT_THAT(RowNamed(comparison, "p99.9 us").why_no_interval,
              HasSubstr("answers above it, at least 10 needed"));
  EXPECT_TRUE(RowNamed(comparison, "p99 us").interval.has_value());
}

TEST_F(CompareTest, WhatWasNotMeasuredHasNoRatio) {
  RunResult silent = RandomRun(1e5, &random_);
  silent.server_cpu = absl::ZeroDuration();
  const Comparison comparison = Compare(ReportOf(silent), ReportOf(silent));
  const ComparisonRow& row = RowNamed(comparison, "server cpu us a request");
  EXPECT_FALSE(row.ratio.has_value());
  EXPECT_EQ(row.why_no_interval, "not measured on both sides");
}

TEST_F(CompareTest, WarnsOfOtherDevicesAndWeights) {
  LoadtestReport a = ReportOf(RandomRun(1e5, &random_));
  LoadtestReport b = a;
  EXPECT_THAT(Compare(a, b).warnings, IsEmpty());
  b.environment.server.device = "another";
  b.weights.text = "q4_0 64x32";
  const std::vector<std::string> warnings = Compare(a, b).warnings;
  EXPECT_THAT(
      warnings,
      Contains(HasSubstr("server device: \"\" in a, \"another\" in b")));
  EXPECT_THAT(warnings, Contains(HasSubstr("weights: ")));
}

TEST_F(CompareTest, ListsOptionsThatDifferButNotOutputFiles) {
  LoadtestReport a = ReportOf(RandomRun(1e5, &random_));
  LoadtestReport b = a;
  a.options = {{"m", "1"}, {"seed", "7"}, {"json", "a.json"}, {"old", "x"}};
  b.options = {{"m", "4"}, {"seed", "7"}, {"json", "b.json"}, {"zipf", "1.1"}};
  const std::string text = FormatComparison(Compare(a, b));
  EXPECT_THAT(text, HasSubstr("option     --m: 1 in a, 4 in b\n"
                              "option     --old: x in a, absent in b\n"
                              "option     --zipf: absent in a, 1.1 in b\n"));
  EXPECT_THAT(text, Not(HasSubstr("--seed")));
  EXPECT_THAT(text, Not(HasSubstr("--json")));
}

TEST_F(CompareTest, WarnsOfErrorsInterruptionsAndOtherArrivals) {
  const RunResult a = RandomRun(1e5, &random_);
  RunResult b = a;
  b.errors[absl::StatusCode::kUnavailable] = {3, "draining"};
  b.interrupted = true;
  b.asked_rate = 100;
  const auto warnings = Compare(ReportOf(a), ReportOf(b)).runs.at(0).warnings;
  EXPECT_THAT(warnings, Contains(HasSubstr("b had 3 errors")));
  EXPECT_THAT(warnings, Contains("b was interrupted"));
  EXPECT_THAT(warnings, Contains(HasSubstr("open arrivals")));
}

TEST_F(CompareTest, RunsAreMatchedByLabel) {
  RunResult run = RandomRun(1e5, &random_);
  LoadtestReport a;
  LoadtestReport b;
  for (absl::string_view label : {"rate=1", "rate=2", "rate=2"}) {
    run.label = std::string(label);
    a.runs.push_back(run);
  }
  for (absl::string_view label : {"rate=2", "rate=3"}) {
    run.label = std::string(label);
    b.runs.push_back(run);
  }
  const Comparison comparison = Compare(a, b);
  ASSERT_EQ(comparison.runs.size(), 1);
  EXPECT_EQ(comparison.runs[0].label, "rate=2");
  EXPECT_THAT(comparison.warnings,
              testing::ElementsAre(HasSubstr("only a has the run \"rate=1\""),
                                   HasSubstr("only b has the run \"rate=3\"")));
}

TEST_F(CompareTest, ReportsWithoutRunsAreSaidToHaveNone) {
  EXPECT_THAT(FormatComparison(Compare(LoadtestReport(), LoadtestReport())),
              HasSubstr("no run to compare\n"));
}

TEST_F(CompareTest, ATableRowHasBothFiguresRatioIntervalAndJudgement) {
  Comparison comparison;
  RunComparison& run = comparison.runs.emplace_back();
  ComparisonRow& row = run.rows.emplace_back();
  row.name = "p50 us";
  row.a = 100;
  row.b = 110;
  row.ratio = 1.1;
  row.interval = RatioInterval{1.05, 1.15};
  row.judgement = Judgement::kSlower;
  EXPECT_THAT(FormatComparison(comparison),
              HasSubstr("p50 us                        100.00       110.00   "
                        "1.1000  1.0500 to 1.1500  slower\n"));
}

}  // namespace
}  // namespace qgemm
