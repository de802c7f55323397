// SPDX-License-Identifier: Apache-2.0
//
// The course over time.

#include "loadtest/report/page/course_plots.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "loadtest/report/page/quantity.h"

namespace qgemm {
namespace {

using ValueOf = absl::FunctionRef<double(const SeriesPoint&)>;

double StartSeconds(const SeriesPoint& point) {
  return absl::ToDoubleSeconds(point.start);
}

double EndSeconds(const RunResult& run) {
  if (run.series.empty()) return 0;
  const SeriesPoint& last = run.series.back();
  return absl::ToDoubleSeconds(last.start + last.length);
}

double PerSecond(int64_t count, const SeriesPoint& point) {
  const double seconds = absl::ToDoubleSeconds(point.length);
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

// An interval without an answer has no latency.
double LatencyOrGap(int64_t ns, const SeriesPoint& point) {
  return point.answers > 0 ? static_cast<double>(ns) : NAN;
}

Series Course(const std::string& name, int style, const RunResult& run,
              ValueOf value) {
  Series series = {name, Mark::kSteps, style, {}};
  for (const SeriesPoint& point : run.series) {
    series.points.push_back({StartSeconds(point), value(point), ""});
  }
  if (!run.series.empty()) {
    series.points.push_back({EndSeconds(run), value(run.series.back()), ""});
  }
  return series;
}

Plot TimePlot(const RunResult& run) {
  Plot plot;
  plot.x.title = "time since the measurement began";
  plot.x.quantity = Quantity::kSeconds;
  plot.y.lowest = 0;
  if (run.series.empty()) return plot;
  const double start = StartSeconds(run.series.front());
  plot.x.lowest = start;
  plot.x.highest = EndSeconds(run);
  if (start < 0) {
    plot.shades.push_back({start, std::min(0.0, EndSeconds(run)), "warm-up"});
  }
  return plot;
}

Series ErrorMarks(const RunResult& run) {
  Series marks = {"errors", Mark::kPoints, kErrorStyle, {}};
  for (const SeriesPoint& point : run.series) {
    if (point.errors == 0) continue;
    const double middle = absl::ToDoubleSeconds(point.start + point.length / 2);
    const auto errors = static_cast<double>(point.errors);
    marks.points.push_back(
        {middle, 0,
         absl::StrCat(CountText(errors), errors == 1 ? " error" : " errors")});
  }
  return marks;
}

Band SpreadBand(const RunResult& run) {
  Band band = {"p50 to p99", 0, {}};
  for (const SeriesPoint& point : run.series) {
    band.points.push_back({StartSeconds(point),
                           LatencyOrGap(point.p50_ns, point),
                           LatencyOrGap(point.p99_ns, point)});
  }
  if (!band.points.empty()) {
    Band::Point last = band.points.back();
    last.x = EndSeconds(run);
    band.points.push_back(last);
  }
  return band;
}

void AddLatencies(const RunResult& run, Plot* plot) {
  plot->bands.push_back(SpreadBand(run));
  plot->series.push_back(Course("p50", 0, run, [](const SeriesPoint& point) {
    return LatencyOrGap(point.p50_ns, point);
  }));
  plot->series.push_back(Course("p99", 1, run, [](const SeriesPoint& point) {
    return LatencyOrGap(point.p99_ns, point);
  }));
  plot->series.push_back(Course("max", 5, run, [](const SeriesPoint& point) {
    return LatencyOrGap(point.max_ns, point);
  }));
}

}  // namespace

Plot AnswersPlot(const RunResult& run) {
  Plot plot = TimePlot(run);
  plot.title = "Answers over time";
  plot.description =
      absl::StrCat("Answers a second in each interval; ",
                   CountText(run.answers_per_second()), " on average.");
  plot.y.title = "answers/s";
  plot.series.push_back(Course("", 0, run, [](const SeriesPoint& point) {
    return PerSecond(point.answers, point);
  }));
  Series errors = ErrorMarks(run);
  if (!errors.points.empty()) plot.series.push_back(std::move(errors));
  return plot;
}

Plot LatencyCoursePlot(const RunResult& run) {
  Plot plot = TimePlot(run);
  plot.title = "Latency over time";
  plot.description =
      "Median, 99th percentile and maximum of the latency in each interval.";
  plot.y.title = "latency";
  plot.y.quantity = Quantity::kNanoseconds;
  AddLatencies(run, &plot);
  ValueRange range;
  for (const Series& series : plot.series) {
    for (const PlotPoint& point : series.points) range.Include(point.y);
  }
  plot.y.scale = ScaleFor(range);
  if (plot.y.scale == Scale::kLog) plot.y.lowest.reset();
  return plot;
}

Plot InFlightPlot(const RunResult& run) {
  Plot plot = TimePlot(run);
  plot.title = "Requests in flight";
  plot.description = absl::StrCat("Requests in flight at the end of each ",
                                  "interval; at most ",
                                  CountText(run.concurrency), " allowed.");
  plot.y.title = "in flight";
  plot.series.push_back(Course("", 0, run, [](const SeriesPoint& point) {
    return static_cast<double>(point.in_flight);
  }));
  return plot;
}

}  // namespace qgemm
