// SPDX-License-Identifier: Apache-2.0
//
// One horizontal bar of parts that add up, as static SVG in the look of
// plot_style.h.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_STACKED_BAR_H_
#define QGEMM_LOADTEST_REPORT_PAGE_STACKED_BAR_H_

#include <string>
#include <vector>

#include "loadtest/report/page/plot.h"

namespace qgemm {

// How many parts have a colour of their own; they repeat after that.
inline constexpr int kPartStyles = 6;

struct StackedBar {
  struct Part {
    std::string name;
    double ns = 0;  // below 0 or not finite: 0
  };
  std::string title;        // for screen readers
  std::string description;  // for screen readers
  std::vector<Part> parts;
};

// Each part has its number, from 1, upon it where that fits, its name and
// value too where those fit. Without anything above 0 it says "no data".
std::string FormatSvg(const StackedBar& bar, const PlotSize& size);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_STACKED_BAR_H_
