// SPDX-License-Identifier: Apache-2.0
//
// Draws plots as static SVG: no script, fonts of the reader's system, colours
// from CSS variables (plot_style.h).

#ifndef QGEMM_LOADTEST_REPORT_PAGE_SVG_PLOT_H_
#define QGEMM_LOADTEST_REPORT_PAGE_SVG_PLOT_H_

#include <string>

#include "loadtest/report/page/plot.h"

namespace qgemm {

// An <svg> for a page that has PlotCss(). A plot without finite values says
// "no data".
std::string FormatSvg(const Plot& plot, const PlotSize& size);

// A file of its own: with its style, a background and its title.
std::string FormatStandaloneSvg(const Plot& plot, const PlotSize& size);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_SVG_PLOT_H_
