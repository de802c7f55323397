// SPDX-License-Identifier: Apache-2.0
//
// The page's own CSS: layout for wide screens, telephones and A4 paper.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_PAGE_STYLE_H_
#define QGEMM_LOADTEST_REPORT_PAGE_PAGE_STYLE_H_

#include "absl/strings/string_view.h"

namespace qgemm {

// Uses the variables of plot_style.h. Figures carry each plot in several
// sizes, of classes wide, mid and slim, of which one shows.
absl::string_view PageCss();

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_PAGE_STYLE_H_
