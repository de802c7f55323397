// SPDX-License-Identifier: Apache-2.0
//
// The few SVG elements that plots are made of, as text. Lengths are finite
// pixels of the view box; what is not finite is written as 0.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_SVG_ELEMENTS_H_
#define QGEMM_LOADTEST_REPORT_PAGE_SVG_ELEMENTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "loadtest/report/page/label_placer.h"

namespace qgemm {

// "12.5"; one decimal, no trailing zero.
std::string SvgNumber(double value);

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

// `text` is escaped; `css` and `note` below too.
std::string SvgText(const Spot& at, Anchor anchor, absl::string_view css,
                    absl::string_view text);
std::string SvgLine(const Spot& from, const Spot& to, absl::string_view css);
// `note` is shown when pointed at; may be empty.
std::string SvgRect(const Box& box, absl::string_view css,
                    absl::string_view note);
// Another shape for each style (plot.h).
std::string SvgMarker(const Spot& at, int style, absl::string_view note);

// What comes first in each picture.
struct SvgHead {
  double width = 0;
  double height = 0;
  std::string css;
  std::string title;
  std::string description;
};
// Opens <svg>; the caller closes it.
std::string SvgStart(const SvgHead& head);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_SVG_ELEMENTS_H_
