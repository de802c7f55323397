// SPDX-License-Identifier: Apache-2.0
//
// Bars of launches and of time.

#include "loadtest/report/page/server_plots.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "loadtest/report/page/quantity.h"

namespace qgemm {
namespace {

// Up to so many rows each number has a bar; above, each doubling has one.
constexpr int64_t kMostSingleRows = 12;
// Shorter bars have no words above them.
constexpr double kLeastNamedShare = 0.5;

struct RowsBin {
  int64_t lowest;
  int64_t highest;
  int64_t answers;

  std::string Name() const {
    if (lowest == highest) return absl::StrCat(lowest);
    return absl::StrCat(lowest, "–", highest);
  }
};

// 1, 2, 3, … or, if wide, 1, 2, 3–4, 5–8, …; 0 counts as 1.
std::vector<RowsBin> EmptyBins(int64_t max_rows) {
  const bool is_wide = max_rows > kMostSingleRows;
  std::vector<RowsBin> bins;
  int64_t lowest = 1;
  while (lowest <= std::max<int64_t>(max_rows, 1)) {
    const bool is_double = is_wide && lowest > 2;
    const int64_t highest = is_double ? 2 * (lowest - 1) : lowest;
    bins.push_back({lowest, highest, 0});
    lowest = highest + 1;
  }
  return bins;
}

// From the first that holds something to the last.
std::vector<RowsBin> BinsOf(const Histogram& rows) {
  std::vector<RowsBin> bins = EmptyBins(rows.max());
  rows.ForEachBucket([&](const Histogram::Bucket& bucket) {
    const auto bin = std::find_if(
        bins.begin(), bins.end() - 1,
        [&](const RowsBin& each) { return each.highest >= bucket.lowest; });
    bin->answers += bucket.count;
  });
  const auto first = std::find_if(
      bins.begin(), bins.end(), [](const RowsBin& b) { return b.answers > 0; });
  bins.erase(bins.begin(), first);
  return bins;
}

double MedianOf(const Histogram& ns) {
  return static_cast<double>(ns.Percentile(50));
}

double Rest(double total, double parts) { return std::max(0.0, total - parts); }

}  // namespace

Plot LaunchRowsPlot(const RunResult& run) {
  const Histogram& rows = run.server.launch_rows;
  Plot plot;
  plot.title = "Rows per launch";
  plot.description =
      absl::StrCat("Shares of the answers by the rows of their launch; ",
                   CountText(rows.mean()), " on average.");
  plot.x.title = "rows of the launch";
  plot.y.title = "share of answers";
  plot.y.quantity = Quantity::kPercent;
  plot.y.lowest = 0;
  Series bars = {"", Mark::kBars, 0, {}};
  if (rows.empty()) return plot;
  for (const RowsBin& bin : BinsOf(rows)) {
    const auto x = static_cast<double>(bars.points.size());
    const double share = 100 * static_cast<double>(bin.answers) /
                         static_cast<double>(rows.count());
    bars.points.push_back(
        {x, share,
         absl::StrCat(bin.Name(), " rows: ", CountText(bin.answers),
                      " answers, ", PercentText(share / 100))});
    plot.x.ticks.push_back({x, bin.Name()});
    if (share < kLeastNamedShare) continue;
    plot.callouts.push_back(
        {x, share, TickText(std::round(share), Quantity::kPercent, 100), 0,
         Callout::Side::kAbove});
  }
  plot.x.lowest = -0.6;
  plot.x.highest = static_cast<double>(bars.points.size()) - 0.4;
  plot.series.push_back(std::move(bars));
  return plot;
}

StackedBar TimingBar(const RunResult& run) {
  const ServerTimes& server = run.server;
  const double total = server.total_ns.mean();
  const double stages =
      server.queue_ns.mean() + server.host_to_device_ns.mean() +
      server.kernel_ns.mean() + server.device_to_host_ns.mean();
  const double latency = run.send_latency_ns().mean();
  StackedBar bar;
  bar.title = "Where the time goes";
  bar.description =
      absl::StrCat("Means of the stages of a request; ", DurationText(latency),
                   " from its send to its answer, of these ",
                   DurationText(total), " on the server.");
  bar.parts = {{"queue", server.queue_ns.mean()},
               {"to device", server.host_to_device_ns.mean()},
               {"kernel", server.kernel_ns.mean()},
               {"back", server.device_to_host_ns.mean()},
               {"rest of server", Rest(total, stages)},
               {"client + transport", Rest(latency, total)}};
  return bar;
}

StackedBar YardstickBar(const Yardstick& yardstick) {
  const double echo = MedianOf(yardstick.echo_ns);
  const double device = MedianOf(yardstick.device_ns);
  const double trip = MedianOf(yardstick.gemm_ns);
  StackedBar bar;
  bar.title = "Yardstick";
  bar.description = absl::StrCat("One request in flight: a round trip of ",
                                 DurationText(trip), " against an echo of ",
                                 DurationText(echo), " and ",
                                 DurationText(device), " on the device.");
  bar.parts = {{"echo", echo},
               {"device", device},
               {"overhead", Rest(trip, echo + device)}};
  return bar;
}

}  // namespace qgemm
