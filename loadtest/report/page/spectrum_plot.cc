// SPDX-License-Identifier: Apache-2.0
//
// The spectrum of percentiles.

#include "loadtest/report/page/spectrum_plot.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/histogram.h"
#include "loadtest/report/page/quantity.h"
#include "loadtest/report/page/report_text.h"

namespace qgemm {
namespace {

// Curves of more classes would not be told apart.
constexpr size_t kMaxClassCurves = 4;

struct NamedPercentile {
  double percent;
  const char* name;
};
double Rarity(double percent) { return 1 / (1 - percent / 100); }

// The ticks from 0 to `rarest`: 50 %, 90 %, 99 %, 99.9 %, …
std::vector<Tick> PercentileTicks(double rarest) {
  std::vector<Tick> ticks = {
      {1, "0 %"}, {2, "50 %"}, {4, ""}, {10, "90 %"}, {20, ""}};
  std::string digits = "99";
  for (double rarity = 100; rarity <= rarest; rarity *= 10) {
    ticks.push_back({rarity, digits + " %"});
    ticks.push_back({2 * rarity, ""});
    digits += digits.size() == 2 ? ".9" : "9";
  }
  return ticks;
}

// Each bucket from the share of values below it on, and the maximum at the end.
std::vector<PlotPoint> SpectrumPoints(const Histogram& latency_ns) {
  std::vector<PlotPoint> points;
  const auto count = static_cast<double>(latency_ns.count());
  double below = 0;
  latency_ns.ForEachBucket([&](const Histogram::Bucket& bucket) {
    const int64_t value = std::min(bucket.highest, latency_ns.max());
    points.push_back({count / (count - below), static_cast<double>(value), ""});
    below += static_cast<double>(bucket.count);
  });
  if (count > 0) {
    points.push_back({count, static_cast<double>(latency_ns.max()), ""});
  }
  return points;
}

Series Curve(const std::string& name, int style, const Histogram& latency_ns) {
  return {name, Mark::kSteps, style, SpectrumPoints(latency_ns)};
}

// Those with the most answers, in their own order.
std::vector<const ClassResult*> LargestClasses(const RunResult& run) {
  std::vector<const ClassResult*> classes;
  for (const ClassResult& each : run.classes) classes.push_back(&each);
  std::stable_sort(classes.begin(), classes.end(),
                   [](const ClassResult* a, const ClassResult* b) {
                     return a->latency_ns.count() > b->latency_ns.count();
                   });
  classes.resize(std::min(classes.size(), kMaxClassCurves));
  std::sort(classes.begin(), classes.end());
  return classes;
}

void AddCurves(const RunResult& run, Plot* plot) {
  const Histogram latency_ns = run.latency_ns();
  const bool has_classes = run.classes.size() > 1;
  plot->series.push_back(Curve(
      IsOpen(run) ? "from the intended start" : "all answers", 0, latency_ns));
  if (IsOpen(run)) {
    plot->series.push_back(Curve("from the send", 1, run.send_latency_ns()));
  }
  int style = 2;
  for (const ClassResult* each : LargestClasses(run)) {
    if (!has_classes) break;
    plot->series.push_back(Curve(each->name, style++, each->latency_ns));
  }
}

// The most telling first: later ones may find no room.
void AddCallouts(const Histogram& latency_ns, Plot* plot) {
  constexpr NamedPercentile kCalledOut[] = {{99, "p99"},       {50, "p50"},
                                            {99.9, "p99.9"},   {100, "max"},
                                            {99.99, "p99.99"}, {90, "p90"}};
  const auto count = static_cast<double>(latency_ns.count());
  for (const NamedPercentile& each : kCalledOut) {
    const bool is_max = each.percent == 100;
    // With fewer answers it would be nearly the maximum.
    if (!is_max && 2 * Rarity(each.percent) > count) continue;
    const auto value = static_cast<double>(latency_ns.Percentile(each.percent));
    plot->callouts.push_back({is_max ? count : Rarity(each.percent), value,
                              absl::StrCat(each.name, " ", DurationText(value)),
                              0});
  }
}

std::string Description(const Histogram& latency_ns) {
  return absl::StrCat(
      "Latency by percentile of ",
      CountText(static_cast<double>(latency_ns.count())), " answers: p50 ",
      DurationText(static_cast<double>(latency_ns.Percentile(50))), ", p99 ",
      DurationText(static_cast<double>(latency_ns.Percentile(99))), ", p99.9 ",
      DurationText(static_cast<double>(latency_ns.Percentile(99.9))),
      ", maximum ", DurationText(static_cast<double>(latency_ns.max())), ".");
}

void SetAxes(const Histogram& latency_ns, Plot* plot) {
  const double rarest = std::max<double>(10, latency_ns.count());
  plot->x.title = "percentile of answers";
  plot->x.scale = Scale::kLog;
  plot->x.lowest = 1;
  plot->x.highest = rarest;
  plot->x.ticks = PercentileTicks(rarest);
  plot->y.title = "latency";
  plot->y.quantity = Quantity::kNanoseconds;
  ValueRange range;
  for (const Series& series : plot->series) {
    for (const PlotPoint& point : series.points) range.Include(point.y);
  }
  plot->y.scale = ScaleFor(range);
  if (plot->y.scale == Scale::kLinear) plot->y.lowest = 0;
}

}  // namespace

Plot SpectrumPlot(const LoadtestReport& report) {
  Plot plot;
  plot.title = "Latency spectrum";
  plot.subtitle = RunSummary(report);
  plot.description = "No request was answered.";
  const RunResult* run = report.headline_run();
  if (run == nullptr) return plot;
  const Histogram latency_ns = run->latency_ns();
  if (latency_ns.empty()) return plot;
  plot.description = Description(latency_ns);
  AddCurves(*run, &plot);
  AddCallouts(latency_ns, &plot);
  SetAxes(latency_ns, &plot);
  for (const SloLimit& limit : SloLimitsOf(report)) {
    plot.rules.push_back({Rule::Direction::kHorizontal, limit.limit_ns,
                          absl::StrCat("SLO ", limit.text)});
  }
  return plot;
}

}  // namespace qgemm
