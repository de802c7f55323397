// SPDX-License-Identifier: Apache-2.0
//
// What was varied follows from the runs' rates and labels.

#include "loadtest/report/page/sweep_plots.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/histogram.h"
#include "loadtest/report/page/knee.h"
#include "loadtest/report/page/quantity.h"
#include "loadtest/report/page/report_text.h"

namespace qgemm {
namespace {

enum class Varied : uint8_t {
  kRate,      // open arrivals
  kLabel,     // labels are "name=number" of one name
  kAnything,  // else
};

struct Label {
  std::string name;
  double value = 0;
};

std::optional<Label> ParseLabel(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  Label label = {std::string(parts.first), 0};
  if (!absl::SimpleAtod(parts.second, &label.value) ||
      !std::isfinite(label.value)) {
    return std::nullopt;
  }
  return label;
}

Varied VariedIn(const LoadtestReport& report) {
  const std::vector<RunResult>& runs = report.runs;
  if (runs.empty()) return Varied::kAnything;
  if (std::all_of(runs.begin(), runs.end(), IsOpen)) return Varied::kRate;
  const std::optional<Label> first = ParseLabel(runs.front().label);
  const bool alike =
      std::all_of(runs.begin(), runs.end(), [&](const RunResult& run) {
        const std::optional<Label> label = ParseLabel(run.label);
        return first && label && label->name == first->name;
      });
  return alike ? Varied::kLabel : Varied::kAnything;
}

// One run with answers.
struct SweepPoint {
  size_t run = 0;
  double order = 0;      // by which the curve goes
  double latency_x = 0;  // on the plot of latencies
  double answers_x = 0;  // on the plot of throughput
  Histogram latency_ns;
};

SweepPoint PointOf(const RunResult& run, size_t index, Varied varied) {
  const double answers = run.answers_per_second();
  SweepPoint point = {index, answers, answers, answers, run.latency_ns()};
  if (varied == Varied::kRate) {
    point.order = run.asked_rate;
    point.latency_x = run.achieved_rate();
    point.answers_x = run.asked_rate;
  } else if (varied == Varied::kLabel) {
    const double value = ParseLabel(run.label).value_or(Label()).value;
    point.order = point.latency_x = point.answers_x = value;
  }
  return point;
}

std::vector<SweepPoint> PointsOf(const LoadtestReport& report) {
  const Varied varied = VariedIn(report);
  std::vector<SweepPoint> points;
  for (size_t i = 0; i < report.runs.size(); ++i) {
    SweepPoint point = PointOf(report.runs[i], i, varied);
    if (!point.latency_ns.empty()) points.push_back(std::move(point));
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const SweepPoint& a, const SweepPoint& b) {
                     return a.order < b.order;
                   });
  return points;
}

double PercentileOf(const SweepPoint& point, double percent) {
  return static_cast<double>(point.latency_ns.Percentile(percent));
}

std::string NoteOf(const LoadtestReport& report, const SweepPoint& point) {
  return absl::StrCat(report.runs[point.run].label, ": p50 ",
                      DurationText(PercentileOf(point, 50)), ", p99 ",
                      DurationText(PercentileOf(point, 99)), ", p99.9 ",
                      DurationText(PercentileOf(point, 99.9)));
}

std::string LatencyAxisTitle(const LoadtestReport& report) {
  switch (VariedIn(report)) {
    case Varied::kRate:
      return "achieved rate, requests/s";
    case Varied::kLabel:
      return ParseLabel(report.runs.front().label)->name;
    case Varied::kAnything:
      return "answers/s";
  }
  return "";
}

// Rates start at 0; a swept value may span decades.
void SetXAxis(const LoadtestReport& report, Plot* plot) {
  ValueRange range;
  for (const Series& series : plot->series) {
    for (const PlotPoint& point : series.points) range.Include(point.x);
  }
  const bool is_label = VariedIn(report) == Varied::kLabel;
  if (is_label && range.lowest() > 0) plot->x.scale = ScaleFor(range);
  if (plot->x.scale == Scale::kLinear && range.lowest() >= 0) {
    plot->x.lowest = 0;
  }
}

void SetLatencyAxis(Plot* plot) {
  plot->y.title = "latency";
  plot->y.quantity = Quantity::kNanoseconds;
  ValueRange range;
  for (const Series& series : plot->series) {
    for (const PlotPoint& point : series.points) range.Include(point.y);
  }
  plot->y.scale = ScaleFor(range);
  if (plot->y.scale == Scale::kLinear) plot->y.lowest = 0;
}

void MarkTurn(const LoadtestReport& report,
              const std::vector<SweepPoint>& points, Plot* plot) {
  const std::optional<Turn> turn = FindTurn(report);
  if (!turn) return;
  for (const SweepPoint& point : points) {
    if (point.run != turn->run) continue;
    const double p99 = PercentileOf(point, 99);
    plot->rules.push_back(
        {Rule::Direction::kVertical, point.latency_x,
         absl::StrCat(turn->name, " ", CountText(point.latency_x), "/s")});
    plot->callouts.push_back(
        {point.latency_x, p99, absl::StrCat("p99 ", DurationText(p99)), 0});
  }
}

Plot TitledPlot(const LoadtestReport& report, const std::string& title) {
  Plot plot;
  plot.title = title;
  plot.subtitle = RunSummary(report);
  return plot;
}

}  // namespace

std::optional<Turn> FindTurn(const LoadtestReport& report) {
  if (VariedIn(report) != Varied::kRate || report.runs.size() < 2) {
    return std::nullopt;
  }
  const std::vector<SweepPoint> points = PointsOf(report);
  std::vector<RatePoint> achieved;
  std::vector<RatePoint> asked;
  for (const SweepPoint& point : points) {
    achieved.push_back({point.latency_x, PercentileOf(point, 99)});
    asked.push_back({point.answers_x, PercentileOf(point, 99)});
  }
  const std::optional<size_t> index =
      report.peak ? FindRate(asked, report.peak->rate) : FindKnee(achieved);
  if (!index) return std::nullopt;
  return Turn{points[*index].run, report.peak ? "peak" : "knee"};
}

Plot RateLatencyPlot(const LoadtestReport& report) {
  Plot plot = TitledPlot(report, "Latency against load");
  const std::vector<SweepPoint> points = PointsOf(report);
  plot.description =
      absl::StrCat("Latency percentiles of ", points.size(), " runs over the ",
                   LatencyAxisTitle(report), ".");
  plot.series = {{"p50", Mark::kLineAndPoints, 2, {}},
                 {"p99", Mark::kLineAndPoints, 0, {}},
                 {"p99.9", Mark::kLineAndPoints, 1, {}}};
  for (const SweepPoint& point : points) {
    const std::string note = NoteOf(report, point);
    const double percents[] = {50, 99, 99.9};
    for (size_t i = 0; i < plot.series.size(); ++i) {
      plot.series[i].points.push_back(
          {point.latency_x, PercentileOf(point, percents[i]), note});
    }
  }
  plot.x.title = LatencyAxisTitle(report);
  SetXAxis(report, &plot);
  SetLatencyAxis(&plot);
  for (const SloLimit& limit : SloLimitsOf(report)) {
    plot.rules.push_back({Rule::Direction::kHorizontal, limit.limit_ns,
                          absl::StrCat("SLO ", limit.text)});
  }
  MarkTurn(report, points, &plot);
  return plot;
}

Plot ThroughputPlot(const LoadtestReport& report) {
  Plot plot = TitledPlot(report, "Throughput");
  const bool has_rates = VariedIn(report) == Varied::kRate;
  plot.description =
      absl::StrCat("Answers a second of each run over the ",
                   has_rates ? "asked rate" : LatencyAxisTitle(report), ".");
  Series answers = {"answers/s", Mark::kLineAndPoints, 0, {}};
  Series asked = {"as asked", Mark::kLine, 5, {{0, 0, ""}}};
  for (const SweepPoint& point : PointsOf(report)) {
    const RunResult& run = report.runs[point.run];
    const double rate = run.answers_per_second();
    answers.points.push_back(
        {point.answers_x, rate,
         absl::StrCat(run.label, ": ", CountText(rate), " answers/s")});
    asked.points.push_back({point.answers_x, point.answers_x, ""});
  }
  if (has_rates) plot.series.push_back(std::move(asked));
  plot.series.push_back(std::move(answers));
  plot.x.title =
      has_rates ? "asked rate, requests/s" : LatencyAxisTitle(report);
  SetXAxis(report, &plot);
  plot.y.lowest = 0;
  return plot;
}

}  // namespace qgemm
