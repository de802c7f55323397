// SPDX-License-Identifier: Apache-2.0
//
// What a plot shows, as plain values; svg_plot.h draws it. Values may be
// anything: those that are not finite are gaps.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_PLOT_H_
#define QGEMM_LOADTEST_REPORT_PAGE_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "loadtest/report/page/axis.h"

namespace qgemm {

// Looks of a series: a colour, a dash and a marker, so that lines are told
// apart in grey print too. Counted from 0; they repeat after kPlotStyles.
inline constexpr int kPlotStyles = 6;
// Beside those: what went wrong.
inline constexpr int kErrorStyle = kPlotStyles;

enum class Mark : uint8_t {
  kLine,
  kSteps,  // horizontal from each point to the next
  kPoints,
  kLineAndPoints,
  kBars,  // from the x axis, 0.8 wide
};

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::string note;  // shown when pointed at; may be empty
};

struct Series {
  std::string name;  // in the legend; empty: not there
  Mark mark = Mark::kLine;
  int style = 0;
  std::vector<PlotPoint> points;  // ascending in x, but for kPoints
};

// A filled area between two curves.
struct Band {
  struct Point {
    double x = 0;
    double low = 0;
    double high = 0;
  };
  std::string name;
  int style = 0;
  std::vector<Point> points;
};

// A stretch of the x axis that is not like the rest.
struct Shade {
  double from = 0;
  double to = 0;
  std::string text;
};

struct Rule {
  enum class Direction : uint8_t { kVertical, kHorizontal };
  Direction direction = Direction::kHorizontal;
  double value = 0;
  std::string text;
};

// A dot with words beside it, if there is room for them.
struct Callout {
  enum class Side : uint8_t { kAny, kAbove };
  double x = 0;
  double y = 0;
  std::string text;
  int style = 0;
  Side side = Side::kAny;
};

struct Plot {
  std::string title;        // for screen readers, and above standalone files
  std::string subtitle;     // above standalone files only
  std::string description;  // for screen readers
  AxisSpec x;
  AxisSpec y;
  std::vector<Band> bands;
  std::vector<Series> series;
  std::vector<Shade> shades;
  std::vector<Rule> rules;
  std::vector<Callout> callouts;  // the most important first
};

struct PlotSize {
  double width = 0;
  double height = 0;
  std::string css_class;  // by which a page chooses among sizes
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_PLOT_H_
