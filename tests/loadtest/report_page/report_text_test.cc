// SPDX-License-Identifier: Apache-2.0
//
// Limits and sentences.

#include "loadtest/report/page/report_text.h"

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(ParseSloLimits, ReadsPercentilesAndDurations) {
  const std::vector<SloLimit> limits = ParseSloLimits("p99=500us, p99.9=2ms");
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(limits[0].text, "p99=500us");
  EXPECT_EQ(limits[0].percent, 99);
  EXPECT_EQ(limits[0].limit_ns, 500e3);
  EXPECT_EQ(limits[1].percent, 99.9);
  EXPECT_EQ(limits[1].limit_ns, 2e6);
}

TEST(ParseSloLimits, LeavesOutWhatIsNoLimit) {
  for (const char* text :
       {"", "p99", "99=1ms", "p101=1ms", "p-1=1ms", "pnan=1s", "p99=fast",
        "p99=-1ms", "p99=inf", "p99=0"}) {
    EXPECT_TRUE(ParseSloLimits(text).empty()) << text;
  }
}

TEST(SloLimitsOf, TakesTheOptionBeforeThePeak) {
  LoadtestReport report;
  PeakResult peak;
  peak.slo = "p99=2ms";
  report.peak = std::make_optional(peak);
  EXPECT_EQ(SloLimitsOf(report)[0].text, "p99=2ms");
  report.options = {{"slo", "p50=1ms"}};
  EXPECT_EQ(SloLimitsOf(report)[0].text, "p50=1ms");
}

LoadtestReport ReportOf(RunResult run) {
  LoadtestReport report;
  report.weights.text = "kbit4 4096x14336";
  report.environment.transport = "unix";
  report.environment.server.backend = "cuda";
  report.environment.server.device = "H100";
  run.classes = {{"m=1", 1, {}, {}}};
  run.measured = run.due_time = absl::Seconds(10);
  report.runs = {run};
  return report;
}

TEST(RunSentence, TellsOpenArrivals) {
  RunResult run;
  run.asked_rate = 2000;
  LoadtestReport report = ReportOf(run);
  report.options = {{"arrivals", "poisson"}};
  EXPECT_EQ(RunSentence(report),
            "Open arrivals (poisson) at 2,000 requests/s for 10.0 s: m=1 on "
            "kbit4 4096x14336 over a Unix socket to H100 (cuda).");
}

TEST(RunSentence, TellsAClosedLoop) {
  RunResult run;
  run.concurrency = 1;
  EXPECT_EQ(RunSentence(ReportOf(run)).substr(0, 48),
            "Closed loop with 1 request in flight for 10.0 s:");
}

TEST(RunSentence, CountsTheRunsOfASweep) {
  LoadtestReport report = ReportOf(RunResult());
  report.runs.push_back(report.runs[0]);
  EXPECT_NE(RunSentence(report).find("the headline of 2 runs."),
            std::string::npos);
}

TEST(RunSentence, SaysThatNothingRan) {
  EXPECT_EQ(RunSentence(LoadtestReport()), "Nothing ran.");
}

}  // namespace
}  // namespace qgemm
