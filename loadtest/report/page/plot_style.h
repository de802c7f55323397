// SPDX-License-Identifier: Apache-2.0
//
// Colours and looks of plots as CSS. Hues that the colour-blind tell apart;
// dashes and markers besides, for print in grey.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_PLOT_STYLE_H_
#define QGEMM_LOADTEST_REPORT_PAGE_PLOT_STYLE_H_

#include "absl/strings/string_view.h"

namespace qgemm {

// The variables on :root, for light, dark and paper.
absl::string_view PlotVariablesCss();

// The rules that use them.
absl::string_view PlotCss();

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_PLOT_STYLE_H_
