// SPDX-License-Identifier: Apache-2.0
//
// Judge and Holds: what a report's runs and answers amount to.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/runner.h"

namespace qgemm::loadtest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kLatencyNs = 1000;

// Held to p99=2us, 1 ms of lag and no errors.
LoadtestOptions StrictOptions() {
  LoadtestOptions options;
  options.arrivals.max_lag = absl::Milliseconds(1);
  options.slo = {{"p99", 99, absl::Nanoseconds(2 * kLatencyNs)}};
  return options;
}

RunResult GoodRun() {
  RunResult run;
  run.due_time = run.measured = absl::Seconds(10);
  run.due = run.sent = run.answers = 1000;
  run.classes.resize(1);
  run.classes[0].latency_ns.Record(kLatencyNs, run.answers);
  run.lag_ns.Record(1000, run.answers);
  return run;
}

RunResult RunWithErrors(absl::StatusCode code, int64_t count) {
  RunResult run = GoodRun();
  run.errors[code] = {count, "said the server"};
  return run;
}

RunResult LateRun() {
  RunResult run = GoodRun();
  run.lag_ns.Record(50000000, run.answers / 50);  // 2 % of them 50 ms late
  return run;
}

RunResult SlowRun() {
  RunResult run = GoodRun();
  run.classes[0].latency_ns.Record(3 * kLatencyNs, run.answers);
  return run;
}

RunResult SilentRun() {
  RunResult run = GoodRun();
  run.answers = 0;
  run.classes[0].latency_ns.Clear();
  return run;
}

LoadtestReport ReportOf(std::vector<RunResult> runs) {
  LoadtestReport report;
  report.runs = std::move(runs);
  return report;
}

LoadtestReport PeakReport(double rate, std::vector<RunResult> runs) {
  LoadtestReport report = ReportOf(std::move(runs));
  report.peak = PeakResult{"p99=2us", rate, rate > 0};
  return report;
}

std::vector<Verdict> Verdicts(const std::vector<Finding>& findings) {
  std::vector<Verdict> verdicts;
  for (const Finding& finding : findings) verdicts.push_back(finding.verdict);
  return verdicts;
}

std::vector<Verdict> VerdictsOf(const LoadtestReport& report) {
  return Verdicts(Judge(report, StrictOptions()));
}

TEST(JudgeTest, AGoodRunHasNoFinding) {
  EXPECT_THAT(VerdictsOf(ReportOf({GoodRun()})), IsEmpty());
}

TEST(JudgeTest, ErrorsAreFoundAndCountedByCode) {
  RunResult run = RunWithErrors(absl::StatusCode::kUnavailable, 3);
  run.errors[absl::StatusCode::kInternal] = {2, "oh"};
  const std::vector<Finding> findings = Judge(ReportOf({run}), StrictOptions());
  ASSERT_THAT(Verdicts(findings), ElementsAre(Verdict::kErrors));
  EXPECT_THAT(findings[0].message, HasSubstr("3 UNAVAILABLE"));
  EXPECT_THAT(findings[0].message, HasSubstr("said the server"));
  EXPECT_THAT(findings[0].message, HasSubstr("2 INTERNAL (oh)"));
}

TEST(JudgeTest, AllowedErrorsAreNoFinding) {
  LoadtestOptions options = StrictOptions();
  options.request.allowed_errors = {absl::StatusCode::kUnavailable};
  RunResult run = RunWithErrors(absl::StatusCode::kUnavailable, 3);
  EXPECT_THAT(Judge(ReportOf({run}), options), IsEmpty());
  run.errors[absl::StatusCode::kInternal] = {1, "oh"};
  const std::vector<Finding> findings = Judge(ReportOf({run}), options);
  ASSERT_THAT(Verdicts(findings), ElementsAre(Verdict::kErrors));
  EXPECT_THAT(findings[0].message, Not(HasSubstr("UNAVAILABLE")));
}

TEST(JudgeTest, ARunWithoutAnswersHasFailed) {
  LoadtestOptions options = StrictOptions();
  options.slo.clear();
  EXPECT_THAT(Verdicts(Judge(ReportOf({SilentRun()}), options)),
              ElementsAre(Verdict::kErrors));
}

TEST(JudgeTest, AnInterruptedRunNeedsNoAnswers) {
  LoadtestOptions options = StrictOptions();
  options.slo.clear();
  RunResult run = SilentRun();
  run.interrupted = true;
  EXPECT_THAT(Verdicts(Judge(ReportOf({run}), options)),
              ElementsAre(Verdict::kInterrupted));
}

TEST(JudgeTest, ALateGeneratorIsFound) {
  const std::vector<Finding> findings =
      Judge(ReportOf({LateRun()}), StrictOptions());
  ASSERT_THAT(Verdicts(findings), ElementsAre(Verdict::kLag));
  EXPECT_THAT(findings[0].message, HasSubstr("--max_lag=1ms"));
}

TEST(JudgeTest, AMissedBoundIsFound) {
  const std::vector<Finding> findings =
      Judge(ReportOf({SlowRun()}), StrictOptions());
  ASSERT_THAT(Verdicts(findings), ElementsAre(Verdict::kSloMissed));
  EXPECT_THAT(findings[0].message, HasSubstr("p99 is 3us, above 2us"));
}

TEST(JudgeTest, ARateThatIsNotKeptMissesTheSlo) {
  RunResult run = GoodRun();
  run.due = 1011;  // 98.9 % sent
  const std::vector<Finding> findings = Judge(ReportOf({run}), StrictOptions());
  ASSERT_THAT(Verdicts(findings), ElementsAre(Verdict::kSloMissed));
  EXPECT_THAT(findings[0].message, HasSubstr("11 of 1011"));
  run.due = 1010;  // 99.01 %
  EXPECT_THAT(VerdictsOf(ReportOf({run})), IsEmpty());
}

TEST(JudgeTest, AWrongAnswerIsFound) {
  LoadtestReport report = ReportOf({GoodRun()});
  report.verify.status = absl::DataLossError("two answers differ");
  const std::vector<Finding> findings = Judge(report, StrictOptions());
  ASSERT_THAT(Verdicts(findings), ElementsAre(Verdict::kWrongAnswer));
  EXPECT_EQ(findings[0].message, "two answers differ");
}

TEST(JudgeTest, FindingsComeInTheOrderOfTheirGravity) {
  RunResult run = RunWithErrors(absl::StatusCode::kInternal, 1);
  run.lag_ns = LateRun().lag_ns;
  run.classes = SlowRun().classes;
  run.interrupted = true;
  LoadtestReport report = ReportOf({run});
  report.verify.status = absl::DataLossError("differ");
  report.findings = Judge(report, StrictOptions());
  EXPECT_THAT(
      Verdicts(report.findings),
      ElementsAre(Verdict::kWrongAnswer, Verdict::kInterrupted,
                  Verdict::kErrors, Verdict::kLag, Verdict::kSloMissed));
  EXPECT_EQ(report.verdict(), Verdict::kWrongAnswer);
}

TEST(JudgeTest, FindingsOfSeveralRunsNameTheRun) {
  RunResult good = GoodRun();
  good.label = "rate=100";
  RunResult bad = RunWithErrors(absl::StatusCode::kInternal, 1);
  bad.label = "rate=200";
  const std::vector<Finding> findings =
      Judge(ReportOf({good, bad}), StrictOptions());
  ASSERT_THAT(Verdicts(findings), ElementsAre(Verdict::kErrors));
  EXPECT_THAT(findings[0].message, StartsWith("rate=200: "));
}

TEST(JudgeTest, ASweepMayMissTheSlo) {
  LoadtestOptions options = StrictOptions();
  options.sweep.values = {"1", "2"};
  EXPECT_THAT(Judge(ReportOf({GoodRun(), SlowRun()}), options), IsEmpty());
}

TEST(JudgeTest, APeakThatWasConfirmedPassesWhateverFailedAboveIt) {
  EXPECT_THAT(
      VerdictsOf(PeakReport(
          1000, {GoodRun(), SlowRun(), LateRun(),
                 RunWithErrors(absl::StatusCode::kResourceExhausted, 5)})),
      IsEmpty());
}

TEST(JudgeTest, APeakThatWasNotConfirmedMissesTheSlo) {
  LoadtestReport report = PeakReport(1000, {GoodRun()});
  report.peak->confirmed = false;
  const std::vector<Finding> findings = Judge(report, StrictOptions());
  ASSERT_THAT(Verdicts(findings), ElementsAre(Verdict::kSloMissed));
  EXPECT_THAT(findings[0].message, HasSubstr("1000 requests/s"));
  EXPECT_THAT(findings[0].message, HasSubstr("p99=2us"));
}

TEST(JudgeTest, NoPeakMissesTheSlo) {
  const std::vector<Finding> findings =
      Judge(PeakReport(0, {SlowRun()}), StrictOptions());
  ASSERT_THAT(Verdicts(findings), ElementsAre(Verdict::kSloMissed));
  EXPECT_THAT(findings[0].message, HasSubstr("p99=2us"));
}

TEST(JudgeTest, ErrorsThatLeftNoPeakAreTold) {
  EXPECT_THAT(VerdictsOf(PeakReport(
                  0, {RunWithErrors(absl::StatusCode::kNotFound, 9)})),
              ElementsAre(Verdict::kErrors, Verdict::kSloMissed));
}

TEST(HoldsTest, AGoodRunHolds) {
  EXPECT_TRUE(Holds(GoodRun(), StrictOptions()));
}

TEST(HoldsTest, EveryFaultKeepsARunFromHolding) {
  EXPECT_FALSE(Holds(SlowRun(), StrictOptions()));
  EXPECT_FALSE(Holds(LateRun(), StrictOptions()));
  EXPECT_FALSE(Holds(SilentRun(), StrictOptions()));
  EXPECT_FALSE(
      Holds(RunWithErrors(absl::StatusCode::kInternal, 1), StrictOptions()));
  RunResult behind = GoodRun();
  behind.due = 1011;
  EXPECT_FALSE(Holds(behind, StrictOptions()));
}

}  // namespace
}  // namespace qgemm::loadtest
