// SPDX-License-Identifier: Apache-2.0
//
// The whole page of ordinary, empty and random reports.

#include "loadtest/report/html_page.h"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/loadtest/report_page/sample_reports.h"
#include "tests/loadtest/report_page/well_formed.h"

namespace qgemm {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<LoadtestReport> Samples() {
  return {OpenReport(),   SweepReport(),   PeakReport(),
          FailedReport(), ClassesReport(), EmptyReport()};
}

TEST(HtmlPage, SamplesAreWellFormed) {
  for (const LoadtestReport& report : Samples()) {
    EXPECT_TRUE(IsWellFormed(FormatHtml(report))) << report.title;
    EXPECT_TRUE(IsWellFormed(FormatSpectrumSvg(report))) << report.title;
  }
}

TEST(HtmlPage, RefersToNothingOutsideItselfAndHasNoScript) {
  for (const LoadtestReport& report : Samples()) {
    const std::string html = FormatHtml(report);
    for (const char* outside :
         {"src=", "url(", "@import", "<script", "https:", "href=\"http"}) {
      EXPECT_THAT(html, Not(HasSubstr(outside)));
    }
  }
}

TEST(HtmlPage, OfOneRunHasSpectrumCourseAndTimingButNoSweep) {
  const std::string html = FormatHtml(OpenReport());
  for (const char* title :
       {"Latency spectrum", "Answers over time", "Latency over time",
        "Requests in flight", "Rows per launch", "Where the time goes",
        "Yardstick", "Run it again"}) {
    EXPECT_THAT(html, HasSubstr(absl::StrCat(">", title, "<")));
  }
  EXPECT_THAT(html, HasSubstr("✓ passed"));
  EXPECT_THAT(html, Not(HasSubstr("Latency against load")));
  EXPECT_THAT(html, Not(HasSubstr("All runs")));
}

TEST(HtmlPage, OfSeveralRunsHasTheSweepAndItsKnee) {
  const std::string html = FormatHtml(SweepReport());
  for (const char* text : {"Latency against load", "Throughput", "All runs",
                           "rate=14000 · knee", "knee 14,000/s"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
}

TEST(HtmlPage, OfASearchTellsThePeak) {
  const std::string html = FormatHtml(PeakReport());
  EXPECT_THAT(html, HasSubstr("14,000 requests/s</b> hold <b>p99=2ms</b>, "
                              "confirmed"));
  EXPECT_THAT(html, HasSubstr("rate=14000 · peak"));
}

TEST(HtmlPage, OfASearchWithoutSuccessSaysSo) {
  LoadtestReport report = PeakReport();
  report.peak->rate = 0;
  EXPECT_THAT(FormatHtml(report), HasSubstr("No rate held <b>p99=2ms</b>"));
}

TEST(HtmlPage, OfAFailureNamesTheFindingsEscaped) {
  const std::string html = FormatHtml(FailedReport());
  for (const char* text :
       {"✗ errors", "<b>wrong answer</b>", "3.5 is not &lt;4&gt;",
        "&lt;b&gt;gate&lt;/b&gt;", "RESOURCE_EXHAUSTED", "deadline expired"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  EXPECT_THAT(html, Not(HasSubstr("\xff")));
}

TEST(HtmlPage, OfNothingHasAVerdictAndNoFigure) {
  const std::string html = FormatHtml(EmptyReport());
  EXPECT_THAT(html, HasSubstr("✗ not started"));
  EXPECT_THAT(html, HasSubstr("Nothing ran."));
  EXPECT_THAT(html, Not(HasSubstr("<figure")));
  EXPECT_THAT(FormatSpectrumSvg(EmptyReport()), HasSubstr("no data"));
}

TEST(HtmlPage, OfARunWithoutAnswersSaysSo) {
  LoadtestReport report = OpenReport();
  RunResult run;
  run.asked_rate = 5;
  run.classes = {{"m=1", 1, {}, {}}};
  report.runs = {run};
  const std::string html = FormatHtml(report);
  EXPECT_THAT(html, HasSubstr("No request was answered"));
  EXPECT_TRUE(IsWellFormed(html));
  EXPECT_TRUE(HasOnlyNumbers(html));
}

TEST(HtmlPage, BreaksTheCommandAtItsFlagsButNotInsideQuotes) {
  LoadtestReport report = OpenReport();
  report.command = "qgemm_loadtest --rate=5 --title='a --b'";
  EXPECT_THAT(FormatHtml(report),
              HasSubstr("qgemm_loadtest \\\n    --rate=5 \\\n    "
                        "--title=&#39;a --b&#39;</pre>"));
}

// Values that no run measures are among them: the page must bear a report that
// was read from a file.
class RandomReports {
 public:
  explicit RandomReports(uint32_t seed) : random_(seed) {}

  LoadtestReport Next() {
    LoadtestReport report;
    report.title = Text();
    report.command = Text();
    report.options = {{Text(), Text()}, {"slo", "p99=" + Text()}};
    report.weights.text = Text();
    report.weights.resident_bytes = Integer();
    report.environment.server.device = Text();
    for (uint32_t i = random_() % 4; i > 0; --i) {
      report.runs.push_back(Run());
    }
    report.headline = random_() % 4;
    if (random_() % 2 == 0) report.yardstick = RandomYardstick();
    if (random_() % 2 == 0) report.peak = PeakResult{Text(), Real(), true};
    report.verify.worst_tolerance_used = Real();
    report.verify.elements_checked = Integer();
    if (random_() % 2 == 0) {
      report.findings = {{Verdict::kErrors, Text()}};
    }
    return report;
  }

 private:
  double Real() {
    const double specials[] = {NAN, INFINITY, -INFINITY, 0, -1, 1e308, 1e-308};
    if (random_() % 3 == 0) return specials[random_() % std::size(specials)];
    return std::uniform_real_distribution<double>(0, 1e5)(random_);
  }

  int64_t Integer() {
    return static_cast<int64_t>(random_()) << (random_() % 31);
  }

  absl::Duration Time() {
    if (random_() % 5 == 0) return absl::InfiniteDuration();
    if (random_() % 5 == 0) return absl::ZeroDuration();
    return absl::Nanoseconds(Integer()) - absl::Seconds(1);
  }

  std::string Text() {
    std::string text;
    for (uint32_t i = random_() % 12; i > 0; --i) {
      // No letters: three of them might make "nan".
      text += "<>&\"'=;\xff\x01 0-"[random_() % 12];
    }
    return text;
  }

  Histogram Values() {
    Histogram values;
    for (uint32_t i = random_() % 40; i > 0; --i) values.Record(Integer());
    return values;
  }

  Yardstick RandomYardstick() {
    return {Integer(), Integer(), Values(),
            Values(),  Values(),  EchoRate{Integer(), 1.5}};
  }

  SeriesPoint Interval() {
    SeriesPoint point;
    point.start = Time();
    point.length = Time();
    point.answers = Integer();
    point.errors = random_() % 2;
    point.p50_ns = Integer();
    point.p99_ns = Integer();
    point.max_ns = Integer();
    point.in_flight = Integer();
    point.launch_rows = Real();
    return point;
  }

  RunResult Run() {
    RunResult run;
    run.label = absl::StrCat("rate=", Integer());
    run.asked_rate = Real();
    run.measured = Time();
    run.due_time = Time();
    run.sent = Integer();
    run.answers = Integer();
    run.rows = Integer();
    run.bytes_sent = Integer();
    run.errors[absl::StatusCode::kInternal] = {Integer(), Text()};
    for (uint32_t i = random_() % 7; i > 0; --i) {
      run.classes.push_back({Text(), Integer(), Values(), Values()});
    }
    run.lag_ns = Values();
    run.server = {Values(), Values(), Values(), Values(),
                  Values(), Values(), Values(), Values()};
    for (uint32_t i = random_() % 9; i > 0; --i) {
      run.series.push_back(Interval());
    }
    run.client_cpu = Time();
    run.server_cpu = Time();
    return run;
  }

  std::mt19937 random_;
};

TEST(HtmlPage, RandomReportsAreWellFormedAndHaveOnlyNumbers) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  RandomReports reports(seed);
  for (int i = 0; i < 60; ++i) {
    const LoadtestReport report = reports.Next();
    const std::string html = FormatHtml(report);
    ASSERT_TRUE(IsWellFormed(html));
    ASSERT_TRUE(HasOnlyNumbers(html)) << i;
    ASSERT_TRUE(HasOnlyNumbers(FormatSpectrumSvg(report)));
  }
}

}  // namespace
}  // namespace qgemm
