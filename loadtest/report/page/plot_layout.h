// SPDX-License-Identifier: Apache-2.0
//
// Where the parts of a plot lie: margins, axes in pixels, the legend. What is
// drawn there, svg_plot.cc says.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_PLOT_LAYOUT_H_
#define QGEMM_LOADTEST_REPORT_PAGE_PLOT_LAYOUT_H_

#include <string>
#include <vector>

#include "loadtest/report/page/axis.h"
#include "loadtest/report/page/label_placer.h"
#include "loadtest/report/page/plot.h"

namespace qgemm {

inline constexpr double kPlotFontPx = 12;
// From one line of text to the next.
inline constexpr double kPlotRowPx = 18;
// The sample of a line in a legend, and the gap after it.
inline constexpr double kSwatchPx = 24;
inline constexpr double kSwatchGapPx = 6;

// The box of text whose baseline starts at `at`.
Box TextBox(const Spot& at, absl::string_view text);

struct LegendEntry {
  enum class Kind : uint8_t { kTitle, kSeries, kBand };
  Kind kind = Kind::kTitle;
  size_t index = 0;  // into Plot::series or Plot::bands
  std::string text;
  Spot at;  // where its sample, or without one its text, starts
};

struct PlotLayout {
  Box picture;
  Box area;  // between the axes
  Axis x;
  Axis y;
  // The title of the y axis, then the series that have a name.
  std::vector<LegendEntry> legend;
  // The ticks of `x` whose labels are written, without overlaps.
  std::vector<Tick> x_labels;
  bool has_values = false;

  Spot At(double x_value, double y_value) const;
  double PixelX(double value) const;
  double PixelY(double value) const;
};

// `top_px` is left free above everything.
PlotLayout LayOut(const Plot& plot, const PlotSize& size, double top_px);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_PLOT_LAYOUT_H_
