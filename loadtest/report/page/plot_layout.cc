// SPDX-License-Identifier: Apache-2.0
//
// Margins follow from the labels, labels from the ranges of the data.

#include "loadtest/report/page/plot_layout.h"

#include <algorithm>
#include <cmath>

namespace qgemm {
namespace {

// Distances that look right with text of kPlotFontPx.
constexpr double kEdgePx = 2;
constexpr double kLegendGapPx = 18;
constexpr double kTickGapPx = 8;       // from the axis to its labels
constexpr double kLegendBelowPx = 24;  // room for words above the area
constexpr double kXLabelsPx = 26;      // below the axis
constexpr double kLabelPitchX = 64;    // pixels a label needs, about
constexpr double kLabelPitchY = 34;
constexpr double kMinRightPx = 12;

struct Ranges {
  ValueRange x;
  ValueRange y;
};

void IncludeSeries(const Series& series, Ranges* ranges) {
  for (const PlotPoint& point : series.points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
    ranges->x.Include(point.x);
    ranges->y.Include(point.y);
  }
}

Ranges RangesOf(const Plot& plot) {
  Ranges ranges;
  for (const Series& series : plot.series) IncludeSeries(series, &ranges);
  for (const Band& band : plot.bands) {
    for (const Band::Point& point : band.points) {
      if (!std::isfinite(point.low) || !std::isfinite(point.high)) continue;
      ranges.x.Include(point.x);
      ranges.y.Include(point.low);
      ranges.y.Include(point.high);
    }
  }
  return ranges;
}

// A line at a limit belongs into the picture even where no value is near it.
void IncludeRules(const Plot& plot, Ranges* ranges) {
  for (const Rule& rule : plot.rules) {
    const bool is_vertical = rule.direction == Rule::Direction::kVertical;
    (is_vertical ? ranges->x : ranges->y).Include(rule.value);
  }
}

std::vector<LegendEntry> EntriesOf(const Plot& plot) {
  using Kind = LegendEntry::Kind;
  std::vector<LegendEntry> entries;
  if (!plot.y.title.empty()) {
    entries.push_back({Kind::kTitle, 0, plot.y.title, {}});
  }
  for (size_t i = 0; i < plot.series.size(); ++i) {
    if (plot.series[i].name.empty()) continue;
    entries.push_back({Kind::kSeries, i, plot.series[i].name, {}});
  }
  for (size_t i = 0; i < plot.bands.size(); ++i) {
    if (plot.bands[i].name.empty()) continue;
    entries.push_back({Kind::kBand, i, plot.bands[i].name, {}});
  }
  return entries;
}

double WidthOf(const LegendEntry& entry) {
  const double text = TextWidth(entry.text, kPlotFontPx);
  const bool has_swatch = entry.kind != LegendEntry::Kind::kTitle;
  return has_swatch ? text + kSwatchPx + kSwatchGapPx : text;
}

// Sets the entries one after the other, in rows. Returns where they end.
double PlaceLegend(double right, double top, std::vector<LegendEntry>* legend) {
  if (legend->empty()) return top;
  Spot at = {kEdgePx, top + kPlotFontPx};
  for (LegendEntry& entry : *legend) {
    const double swatch = WidthOf(entry) - TextWidth(entry.text, kPlotFontPx);
    entry.text = FittedText(entry.text, kPlotFontPx, right - kEdgePx - swatch);
    const double width = WidthOf(entry);
    if (at.x > kEdgePx && at.x + width > right) {
      at = {kEdgePx, at.y + kPlotRowPx};
    }
    entry.at = at;
    at.x += width + kLegendGapPx;
  }
  return at.y;
}

double WidestLabel(const Axis& axis) {
  double widest = 0;
  for (const Tick& tick : axis.ticks) {
    widest = std::max(widest, TextWidth(tick.label, kPlotFontPx));
  }
  return widest;
}

int LabelLimit(double length_px, double pitch_px) {
  return static_cast<int>(length_px / pitch_px);
}

// Leaves labels out from the left where they would touch; the last one stays.
std::vector<Tick> LabelsWithRoom(const PlotLayout& layout) {
  std::vector<Tick> kept;
  double free_until = layout.picture.right;
  for (size_t i = layout.x.ticks.size(); i-- > 0;) {
    const Tick& tick = layout.x.ticks[i];
    if (tick.label.empty()) continue;
    const double half = TextWidth(tick.label, kPlotFontPx) / 2;
    const double center = layout.PixelX(tick.value);
    if (center + half > free_until || center - half < 0) continue;
    kept.push_back(tick);
    free_until = center - half - kTickGapPx;
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

double RightMargin(const Axis& x) {
  if (x.ticks.empty()) return kMinRightPx;
  const double half = TextWidth(x.ticks.back().label, kPlotFontPx) / 2;
  // Only as far as the last label reaches beyond the axis, at worst half.
  return std::max(kMinRightPx, half + kEdgePx);
}

}  // namespace

Box TextBox(const Spot& at, absl::string_view text) {
  return {at.x, at.y - kPlotFontPx, at.x + TextWidth(text, kPlotFontPx),
          at.y + kPlotFontPx * 0.35};
}

double PlotLayout::PixelX(double value) const {
  return area.left + area.width() * x.Position(value);
}

double PlotLayout::PixelY(double value) const {
  return area.bottom - area.height() * y.Position(value);
}

Spot PlotLayout::At(double x_value, double y_value) const {
  return {PixelX(x_value), PixelY(y_value)};
}

PlotLayout LayOut(const Plot& plot, const PlotSize& size, double top_px) {
  PlotLayout layout;
  layout.picture = {0, 0, size.width, size.height};
  layout.legend = EntriesOf(plot);
  const double legend_end =
      PlaceLegend(size.width - kEdgePx, top_px, &layout.legend);
  layout.area.top = legend_end + kLegendBelowPx;
  layout.area.bottom = size.height - kXLabelsPx;
  if (!plot.x.title.empty()) layout.area.bottom -= kPlotRowPx;
  Ranges ranges = RangesOf(plot);
  layout.has_values = !ranges.x.empty() && !ranges.y.empty();
  if (layout.has_values) IncludeRules(plot, &ranges);
  layout.y = MakeAxis(plot.y, ranges.y,
                      LabelLimit(layout.area.height(), kLabelPitchY));
  layout.area.left = WidestLabel(layout.y) + kTickGapPx + kEdgePx;
  layout.x = MakeAxis(
      plot.x, ranges.x,
      LabelLimit(size.width - layout.area.left - kMinRightPx, kLabelPitchX));
  layout.area.right = size.width - RightMargin(layout.x);
  layout.x_labels = LabelsWithRoom(layout);
  return layout;
}

}  // namespace qgemm
