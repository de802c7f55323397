// SPDX-License-Identifier: Apache-2.0
//
// What the plots of a report show.

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "loadtest/report/page/course_plots.h"
#include "loadtest/report/page/server_plots.h"
#include "loadtest/report/page/spectrum_plot.h"
#include "loadtest/report/page/sweep_plots.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using testing::ElementsAre;

RunResult RunOf(double asked_rate, const std::vector<int64_t>& latencies_ns) {
  RunResult run;
  run.asked_rate = asked_rate;
  run.classes = {{"m=1", 1, {}, {}}};
  for (const int64_t ns : latencies_ns) {
    run.classes[0].latency_ns.Record(ns);
    run.classes[0].send_latency_ns.Record(ns);
  }
  run.answers = run.sent = static_cast<int64_t>(latencies_ns.size());
  run.measured = run.due_time =
      absl::Seconds(asked_rate > 0 ? run.sent / asked_rate : 1);
  run.label = absl::StrCat("rate=", asked_rate);
  return run;
}

LoadtestReport ReportOf(std::vector<RunResult> runs) {
  LoadtestReport report;
  report.runs = std::move(runs);
  return report;
}

// 1,000 answers: 1 to 1000 ns, so that percentile p is 10 p, exactly.
RunResult Ramp(double asked_rate) {
  std::vector<int64_t> latencies_ns;
  for (int64_t ns = 1; ns <= 1000; ++ns) latencies_ns.push_back(ns);
  return RunOf(asked_rate, latencies_ns);
}

// The height of steps at `x`.
double StepAt(const Series& series, double x) {
  double y = NAN;
  for (const PlotPoint& point : series.points) {
    if (point.x <= x * (1 + 1e-12)) y = point.y;
  }
  return y;
}

TEST(SpectrumPlot, IsThePercentileFunction) {
  const Plot plot = SpectrumPlot(ReportOf({Ramp(100)}));
  for (const double percent : {10.05, 50.05, 90.05, 98.95}) {
    const auto expected =
        static_cast<double>(Ramp(100).latency_ns().Percentile(percent));
    EXPECT_EQ(StepAt(plot.series[0], 1 / (1 - percent / 100)), expected);
  }
  EXPECT_EQ(plot.series[0].points.back().y, 1000);
  EXPECT_EQ(plot.x.highest, 1000);
}

TEST(SpectrumPlot, HasTwoCurvesForOpenArrivalsAndOneForAClosedLoop) {
  EXPECT_EQ(SpectrumPlot(ReportOf({Ramp(100)})).series.size(), 2u);
  EXPECT_EQ(SpectrumPlot(ReportOf({Ramp(0)})).series.size(), 1u);
}

TEST(SpectrumPlot, HasACurveAClassWhenThereAreSeveral) {
  RunResult run = Ramp(0);
  run.classes.push_back(run.classes[0]);
  run.classes.back().name = "m=16";
  const Plot plot = SpectrumPlot(ReportOf({run}));
  ASSERT_EQ(plot.series.size(), 3u);
  EXPECT_EQ(plot.series[1].name, "m=1");
  EXPECT_EQ(plot.series[2].name, "m=16");
}

TEST(SpectrumPlot, IsLogFromATwentyfoldRangeOn) {
  EXPECT_EQ(SpectrumPlot(ReportOf({Ramp(0)})).y.scale, Scale::kLog);
  EXPECT_EQ(SpectrumPlot(ReportOf({RunOf(0, {100, 150})})).y.scale,
            Scale::kLinear);
}

TEST(SpectrumPlot, DrawsTheSlo) {
  LoadtestReport report = ReportOf({Ramp(100)});
  report.options = {{"slo", "p99=2us"}};
  const Plot plot = SpectrumPlot(report);
  ASSERT_EQ(plot.rules.size(), 1u);
  EXPECT_EQ(plot.rules[0].value, 2000);
  EXPECT_EQ(plot.rules[0].text, "SLO p99=2us");
}

TEST(SpectrumPlot, CallsOutNoPercentileThatTooFewAnswersDefine) {
  const Plot plot = SpectrumPlot(ReportOf({RunOf(0, {1, 2, 3, 4, 5})}));
  std::vector<std::string> names;
  for (const Callout& each : plot.callouts) names.push_back(each.text);
  EXPECT_THAT(names, ElementsAre("p50 3 ns", "max 5 ns"));
}

TEST(SpectrumPlot, IsEmptyWithoutAnswers) {
  EXPECT_TRUE(SpectrumPlot(LoadtestReport()).series.empty());
  EXPECT_TRUE(SpectrumPlot(ReportOf({RunOf(5, {})})).series.empty());
}

RunResult WithSeries() {
  RunResult run = Ramp(100);
  for (int i = -1; i < 3; ++i) {
    SeriesPoint point;
    point.start = i * absl::Milliseconds(100);
    point.length = absl::Milliseconds(100);
    point.answers = i == 1 ? 0 : 10;
    point.p50_ns = point.p99_ns = point.max_ns = point.answers * 100;
    point.errors = i == 2 ? 7 : 0;
    run.series.push_back(point);
  }
  return run;
}

TEST(CoursePlots, CountAnswersASecond) {
  const Plot plot = AnswersPlot(WithSeries());
  EXPECT_DOUBLE_EQ(StepAt(plot.series[0], 0.05), 100);
  EXPECT_DOUBLE_EQ(StepAt(plot.series[0], 0.15), 0);
  EXPECT_DOUBLE_EQ(plot.series[0].points.back().x, 0.3);
}

TEST(CoursePlots, ShadeTheWarmup) {
  const Plot plot = AnswersPlot(WithSeries());
  ASSERT_EQ(plot.shades.size(), 1u);
  EXPECT_DOUBLE_EQ(plot.shades[0].from, -0.1);
  EXPECT_EQ(plot.shades[0].to, 0);
}

TEST(CoursePlots, MarkErrorsWhereTheyCame) {
  const Plot plot = AnswersPlot(WithSeries());
  ASSERT_EQ(plot.series.size(), 2u);
  ASSERT_EQ(plot.series[1].points.size(), 1u);
  EXPECT_DOUBLE_EQ(plot.series[1].points[0].x, 0.25);
  EXPECT_EQ(plot.series[1].points[0].note, "7 errors");
}

TEST(CoursePlots, LeaveAGapWithoutAnswers) {
  const Plot plot = LatencyCoursePlot(WithSeries());
  EXPECT_TRUE(std::isnan(StepAt(plot.series[0], 0.15)));
  EXPECT_EQ(StepAt(plot.series[0], 0.25), 1000);
}

TEST(CoursePlots, AreEmptyWithoutASeries) {
  EXPECT_TRUE(InFlightPlot(Ramp(1)).series[0].points.empty());
}

std::vector<RunResult> Hockey() {
  return {RunOf(8, std::vector<int64_t>(80, 110)),
          RunOf(2, std::vector<int64_t>(20, 100)),
          RunOf(10, std::vector<int64_t>(100, 11000)),
          RunOf(5, std::vector<int64_t>(50, 105))};
}

TEST(SweepPlots, GoByRateWhateverTheOrderOfTheRuns) {
  const Plot plot = RateLatencyPlot(ReportOf(Hockey()));
  std::vector<double> rates;
  for (const PlotPoint& point : plot.series[1].points) rates.push_back(point.x);
  EXPECT_THAT(rates, ElementsAre(2, 5, 8, 10));
}

TEST(SweepPlots, MarkTheKnee) {
  const LoadtestReport report = ReportOf(Hockey());
  const std::optional<Turn> turn = FindTurn(report);
  ASSERT_TRUE(turn.has_value());
  EXPECT_EQ(turn->run, 0u);
  EXPECT_EQ(turn->name, "knee");
  ASSERT_EQ(RateLatencyPlot(report).rules.size(), 1u);
  EXPECT_EQ(RateLatencyPlot(report).rules[0].text, "knee 8/s");
}

TEST(SweepPlots, MarkThePeakInsteadIfThereIsOne) {
  LoadtestReport report = ReportOf(Hockey());
  report.peak = PeakResult{"p99=1us", 5, true};
  ASSERT_TRUE(FindTurn(report).has_value());
  EXPECT_EQ(FindTurn(report)->run, 3u);
  EXPECT_EQ(FindTurn(report)->name, "peak");
  report.peak->rate = 0;
  EXPECT_FALSE(FindTurn(report).has_value());
}

TEST(SweepPlots, UseTheSweptValueOfClosedRuns) {
  std::vector<RunResult> runs = {RunOf(0, {10, 10}), RunOf(0, {20})};
  runs[0].label = "concurrency=1";
  runs[1].label = "concurrency=64";
  const Plot plot = RateLatencyPlot(ReportOf(runs));
  EXPECT_EQ(plot.x.title, "concurrency");
  EXPECT_EQ(plot.x.scale, Scale::kLog);
  EXPECT_EQ(plot.series[0].points[1].x, 64);
  EXPECT_FALSE(FindTurn(ReportOf(runs)).has_value());
}

TEST(SweepPlots, UseAnswersASecondOfUnlikeLabels) {
  std::vector<RunResult> runs = {RunOf(0, {10, 10}), RunOf(0, {20})};
  runs[0].label = "format=kbit4";
  runs[1].label = "m=2";
  const Plot plot = RateLatencyPlot(ReportOf(runs));
  EXPECT_EQ(plot.x.title, "answers/s");
  EXPECT_EQ(plot.series[0].points[0].x, 1);
}

TEST(SweepPlots, LeaveOutRunsWithoutAnswers) {
  std::vector<RunResult> runs = Hockey();
  runs.push_back(RunOf(20, {}));
  EXPECT_EQ(RateLatencyPlot(ReportOf(runs)).series[0].points.size(), 4u);
}

TEST(LaunchRowsPlot, HasABarANumberWhenThereAreFew) {
  RunResult run = Ramp(0);
  run.server.launch_rows.Record(2, 30);
  run.server.launch_rows.Record(4, 10);
  const Plot plot = LaunchRowsPlot(run);
  ASSERT_EQ(plot.series[0].points.size(), 3u);
  EXPECT_EQ(plot.x.ticks[0].label, "2");
  EXPECT_DOUBLE_EQ(plot.series[0].points[0].y, 75);
  EXPECT_DOUBLE_EQ(plot.series[0].points[1].y, 0);
  EXPECT_DOUBLE_EQ(plot.series[0].points[2].y, 25);
}

TEST(LaunchRowsPlot, DoublesTheBarsWidthWhenThereAreMany) {
  RunResult run = Ramp(0);
  for (const int64_t rows : {1, 3, 4, 5, 64}) {
    run.server.launch_rows.Record(rows);
  }
  const Plot plot = LaunchRowsPlot(run);
  std::vector<std::string> labels;
  for (const Tick& tick : plot.x.ticks) labels.push_back(tick.label);
  EXPECT_THAT(labels,
              ElementsAre("1", "2", "3–4", "5–8", "9–16", "17–32", "33–64"));
  EXPECT_DOUBLE_EQ(plot.series[0].points[2].y, 40);
  EXPECT_DOUBLE_EQ(plot.series[0].points[6].y, 20);
}

TEST(LaunchRowsPlot, CountsAnythingFromZeroToTheLargestValue) {
  RunResult run = Ramp(0);
  run.server.launch_rows.Record(0);
  run.server.launch_rows.Record(int64_t{1} << 62);
  double sum = 0;
  const Plot plot = LaunchRowsPlot(run);
  for (const PlotPoint& point : plot.series[0].points) sum += point.y;
  EXPECT_DOUBLE_EQ(sum, 100);
}

std::vector<double> PartsOf(const StackedBar& bar) {
  std::vector<double> parts;
  for (const StackedBar::Part& part : bar.parts) parts.push_back(part.ns);
  return parts;
}

TEST(TimingBar, PartsAddUpToTheLatencyFromTheSend) {
  RunResult run = RunOf(0, {100});
  run.server.queue_ns.Record(10);
  run.server.host_to_device_ns.Record(5);
  run.server.kernel_ns.Record(20);
  run.server.device_to_host_ns.Record(6);
  run.server.total_ns.Record(50);
  EXPECT_THAT(PartsOf(TimingBar(run)), ElementsAre(10, 5, 20, 6, 9, 50));
}

TEST(TimingBar, HasNoPartBelowZeroWhenClocksDisagree) {
  RunResult run = RunOf(0, {40});
  run.server.kernel_ns.Record(60);
  run.server.total_ns.Record(50);
  EXPECT_THAT(PartsOf(TimingBar(run)), ElementsAre(0, 0, 60, 0, 0, 0));
}

TEST(YardstickBar, OverheadIsWhatEchoAndDeviceLeave) {
  Yardstick yardstick;
  yardstick.echo_ns.Record(90);
  yardstick.device_ns.Record(40);
  yardstick.gemm_ns.Record(150);
  EXPECT_THAT(PartsOf(YardstickBar(yardstick)), ElementsAre(90, 40, 20));
}

}  // namespace
}  // namespace qgemm
