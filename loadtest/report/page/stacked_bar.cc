// SPDX-License-Identifier: Apache-2.0
//
// Draws the parts, their words and the axis below them.

#include "loadtest/report/page/stacked_bar.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "loadtest/report/page/label_placer.h"
#include "loadtest/report/page/plot_layout.h"
#include "loadtest/report/page/quantity.h"
#include "loadtest/report/page/svg_elements.h"

namespace qgemm {
namespace {

constexpr double kLeftPx = 5;     // half of the label 0
constexpr double kRightPx = 32;   // half a label beyond the axis
constexpr double kBelowPx = 30;   // ticks and their labels
constexpr double kWordPadPx = 5;  // between words and the part's end
constexpr double kLabelPitchPx = 72;

double LengthOf(const StackedBar::Part& part) {
  return std::isfinite(part.ns) && part.ns > 0 ? part.ns : 0;
}

double TotalOf(const StackedBar& bar) {
  double total = 0;
  for (const StackedBar::Part& part : bar.parts) total += LengthOf(part);
  return total;
}

Axis AxisOf(double total, double width) {
  AxisSpec spec;
  spec.quantity = Quantity::kNanoseconds;
  spec.lowest = 0;
  spec.highest = total;
  return MakeAxis(spec, ValueRange(), static_cast<int>(width / kLabelPitchPx));
}

std::string WordsOf(const StackedBar& bar, size_t index, const Box& box) {
  const StackedBar::Part& part = bar.parts[index];
  const std::string number = absl::StrCat(index + 1);
  const std::string full = absl::StrCat(number, " ", part.name);
  const std::string value = DurationText(part.ns);
  const std::string css = absl::StrCat("t", index % kPartStyles);
  const double room = box.width() - 2 * kWordPadPx;
  const double middle = (box.left + box.right) / 2;
  const double center = (box.top + box.bottom) / 2;
  const bool has_value = TextWidth(value, kPlotFontPx) <= room;
  const bool has_name = TextWidth(full, kPlotFontPx) <= room;
  if (!has_name && TextWidth(number, kPlotFontPx) > room + kWordPadPx) {
    return "";
  }
  const double first = has_value ? center - 4 : center + 4;
  return absl::StrCat(
      SvgText({middle, first}, Anchor::kMiddle, css, has_name ? full : number),
      has_value ? SvgText({middle, center + 13}, Anchor::kMiddle, css, value)
                : "");
}

std::string AxisElements(const Axis& axis, const Box& area) {
  std::string out =
      SvgLine({area.left, area.bottom}, {area.right, area.bottom}, "axis");
  for (const Tick& tick : axis.ticks) {
    const double x = area.left + area.width() * axis.Position(tick.value);
    absl::StrAppend(
        &out, SvgLine({x, area.bottom}, {x, area.bottom + 6}, "tick"),
        SvgText({x, area.bottom + 20}, Anchor::kMiddle, "", tick.label));
  }
  return out;
}

std::string Parts(const StackedBar& bar, const Axis& axis, const Box& area) {
  std::string out;
  double sum = 0;
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    const StackedBar::Part& part = bar.parts[i];
    const double length = LengthOf(part);
    Box box = area;
    box.left = area.left + area.width() * axis.Position(sum);
    box.right = area.left + area.width() * axis.Position(sum + length);
    sum += length;
    const std::string note =
        absl::StrCat(part.name, ": ", DurationText(part.ns));
    absl::StrAppend(&out,
                    SvgRect(box, absl::StrCat("part f", i % kPartStyles), note),
                    WordsOf(bar, i, box));
  }
  return out;
}

}  // namespace

std::string FormatSvg(const StackedBar& bar, const PlotSize& size) {
  const double total = TotalOf(bar);
  const Box area = {kLeftPx, 4, size.width - kRightPx, size.height - kBelowPx};
  const std::string css = absl::StrCat("plot ", size.css_class);
  std::string out =
      SvgStart({size.width, size.height, css, bar.title, bar.description});
  if (total > 0) {
    const Axis axis = AxisOf(total, area.width());
    absl::StrAppend(&out, Parts(bar, axis, area), AxisElements(axis, area));
  } else {
    absl::StrAppend(&out, SvgText({size.width / 2, size.height / 2},
                                  Anchor::kMiddle, "", "no data"));
  }
  return out + "</svg>\n";
}

}  // namespace qgemm
