// SPDX-License-Identifier: Apache-2.0
//
// From the back to the front: shades, grid, bands, series, rules, axes, words.

#include "loadtest/report/page/svg_plot.h"

#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "loadtest/report/page/label_placer.h"
#include "loadtest/report/page/markup.h"
#include "loadtest/report/page/plot_layout.h"
#include "loadtest/report/page/plot_style.h"
#include "loadtest/report/page/svg_elements.h"
#include "loadtest/report/page/svg_path.h"

namespace qgemm {
namespace {

constexpr double kMajorTickPx = 6;
constexpr double kMinorTickPx = 3;
constexpr double kDotPx = 5;      // half the room that a marker takes
constexpr double kWordGapPx = 8;  // between a marker and its words
constexpr double kAvoidPitchPx = 5;
constexpr double kPaddingPx = 24;  // of standalone files
constexpr double kTitleRowsPx = 58;
constexpr double kTitlePx = 20;  // 18, and bold
constexpr double kSubtitlePx = 13;

int StyleOf(int style) {
  return style == kErrorStyle
             ? style
             : (style % kPlotStyles + kPlotStyles) % kPlotStyles;
}

bool IsFinite(const PlotPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

// Words may stand a little above the area and beside it on the right.
Box RoomFor(const PlotLayout& layout) {
  Box room = layout.area;
  room.top -= kPlotFontPx + 4;
  room.right = layout.picture.right;
  return room;
}

// Draws one plot. The parts must be drawn from the back to the front.
class PlotWriter {
 public:
  PlotWriter(const Plot& plot, const PlotLayout& layout)
      : plot_(plot), layout_(layout), placer_(RoomFor(layout)) {}

  std::string Write() {
    if (!layout_.has_values) return NoData();
    for (const Shade& shade : plot_.shades) DrawShade(shade);
    DrawYAxis();
    for (const Band& band : plot_.bands) DrawBand(band);
    for (const Series& series : plot_.series) DrawSeries(series);
    for (const Rule& rule : plot_.rules) DrawRule(rule);
    DrawXAxis();
    DrawLegend();
    for (const Callout& callout : plot_.callouts) DrawDot(callout);
    for (const Rule& rule : plot_.rules) WriteRuleText(rule);
    for (const Callout& callout : plot_.callouts) WriteCallout(callout);
    for (const Shade& shade : plot_.shades) WriteShadeText(shade);
    return std::move(out_);
  }

 private:
  std::string NoData() {
    const Box& all = layout_.picture;
    DrawLegend();
    return out_ + SvgText({all.width() / 2, all.height() / 2}, Anchor::kMiddle,
                          "", "no data");
  }

  void Add(const std::string& element) { out_ += element; }

  void AddPath(const std::string& css, const std::string& path) {
    if (path.empty()) return;
    absl::StrAppend(&out_, "<path class=\"", css, "\" d=\"", path, "\"/>\n");
  }

  void DrawShade(const Shade& shade) {
    const Box& area = layout_.area;
    Add(SvgRect({layout_.PixelX(shade.from), area.top, layout_.PixelX(shade.to),
                 area.bottom},
                "shade", shade.text));
  }

  void DrawYAxis() {
    const Box& area = layout_.area;
    for (const Tick& tick : layout_.y.ticks) {
      const double y = layout_.PixelY(tick.value);
      if (tick.label.empty()) {
        Add(SvgLine({area.left - kMinorTickPx, y}, {area.left, y}, "tick"));
        continue;
      }
      Add(SvgLine({area.left, y}, {area.right, y}, "grid"));
      Add(SvgText({area.left - kWordGapPx, y + kPlotFontPx / 3}, Anchor::kEnd,
                  "", tick.label));
    }
  }

  void DrawXAxis() {
    const Box& area = layout_.area;
    Add(SvgLine({area.left, area.bottom}, {area.right, area.bottom}, "axis"));
    for (const Tick& tick : layout_.x.ticks) {
      const double x = layout_.PixelX(tick.value);
      const double length = tick.label.empty() ? kMinorTickPx : kMajorTickPx;
      Add(SvgLine({x, area.bottom}, {x, area.bottom + length}, "tick"));
    }
    for (const Tick& tick : layout_.x_labels) {
      Add(SvgText({layout_.PixelX(tick.value), area.bottom + 19},
                  Anchor::kMiddle, "", tick.label));
    }
    if (plot_.x.title.empty()) return;
    Add(SvgText({(area.left + area.right) / 2, layout_.picture.bottom - 6},
                Anchor::kMiddle, "",
                FittedText(plot_.x.title, kPlotFontPx, area.width())));
  }

  std::vector<Spot> SpotsOf(const Series& series) const {
    std::vector<Spot> spots;
    spots.reserve(series.points.size());
    for (const PlotPoint& point : series.points) {
      spots.push_back(IsFinite(point) ? layout_.At(point.x, point.y)
                                      : Spot{layout_.PixelX(point.x), NAN});
    }
    return spots;
  }

  void DrawBand(const Band& band) {
    std::vector<Spot> low;
    std::vector<Spot> high;
    for (const Band::Point& point : band.points) {
      const bool is_gap = !std::isfinite(point.x + point.low + point.high);
      const double x = layout_.PixelX(point.x);
      low.push_back({x, is_gap ? NAN : layout_.PixelY(point.low)});
      high.push_back({x, is_gap ? NAN : layout_.PixelY(point.high)});
    }
    AddPath(absl::StrCat("band b", StyleOf(band.style)),
            AreaPath(StepCorners(low), StepCorners(high)));
  }

  void DrawSeries(const Series& series) {
    if (series.mark == Mark::kBars) return DrawBars(series);
    if (series.mark != Mark::kPoints) DrawCurve(series);
    const bool has_points =
        series.mark == Mark::kPoints || series.mark == Mark::kLineAndPoints;
    if (has_points) DrawPoints(series);
  }

  void DrawCurve(const Series& series) {
    std::vector<Spot> spots = SpotsOf(series);
    if (series.mark == Mark::kSteps) spots = StepCorners(spots);
    spots = Thinned(spots);
    AddPath(absl::StrCat("line s", StyleOf(series.style)), LinePath(spots));
    for (const Spot& spot : AlongLine(spots, kAvoidPitchPx)) {
      placer_.Avoid(spot);
    }
  }

  void DrawPoints(const Series& series) {
    // Markers that would hide each other are drawn once.
    std::optional<Spot> last;
    for (const PlotPoint& point : series.points) {
      if (!IsFinite(point)) continue;
      const Spot at = layout_.At(point.x, point.y);
      if (last && std::hypot(at.x - last->x, at.y - last->y) < 1) continue;
      last = at;
      placer_.Avoid(at);
      Add(SvgMarker(at, StyleOf(series.style), point.note));
    }
  }

  void DrawBars(const Series& series) {
    for (const PlotPoint& point : series.points) {
      if (!IsFinite(point)) continue;
      const Box bar = {layout_.PixelX(point.x - 0.4), layout_.PixelY(point.y),
                       layout_.PixelX(point.x + 0.4), layout_.area.bottom};
      Add(SvgRect(bar, absl::StrCat("m", StyleOf(series.style)), point.note));
      placer_.Occupy(bar);
    }
  }

  void DrawRule(const Rule& rule) {
    if (!std::isfinite(rule.value)) return;
    const auto [from, to] = EndsOf(rule);
    Add(SvgLine(from, to, "rule"));
    for (const Spot& spot : AlongLine({from, to}, kAvoidPitchPx)) {
      placer_.Avoid(spot);
    }
  }

  std::pair<Spot, Spot> EndsOf(const Rule& rule) const {
    const Box& area = layout_.area;
    if (rule.direction == Rule::Direction::kVertical) {
      const double x = layout_.PixelX(rule.value);
      return {{x, area.top}, {x, area.bottom}};
    }
    const double y = layout_.PixelY(rule.value);
    return {{area.left, y}, {area.right, y}};
  }

  void DrawLegend() {
    for (const LegendEntry& entry : layout_.legend) {
      Spot at = entry.at;
      if (entry.kind != LegendEntry::Kind::kTitle) {
        DrawSwatch(entry);
        at.x += kSwatchPx + kSwatchGapPx;
      }
      Add(SvgText(at, Anchor::kStart, "", entry.text));
    }
  }

  void DrawSwatch(const LegendEntry& entry) {
    const double y = entry.at.y - kPlotFontPx / 3;
    const Box box = {entry.at.x, y - 5, entry.at.x + kSwatchPx, y + 5};
    if (entry.kind == LegendEntry::Kind::kBand) {
      const int style = StyleOf(plot_.bands[entry.index].style);
      return Add(SvgRect(box, absl::StrCat("band b", style), ""));
    }
    const Series& series = plot_.series[entry.index];
    const std::string style = absl::StrCat(StyleOf(series.style));
    const Spot middle = {(box.left + box.right) / 2, y};
    switch (series.mark) {
      case Mark::kBars:
        return Add(SvgRect(box, "m" + style, ""));
      case Mark::kPoints:
        return Add(SvgMarker(middle, StyleOf(series.style), ""));
      case Mark::kLineAndPoints:
        Add(SvgMarker(middle, StyleOf(series.style), ""));
        break;
      case Mark::kLine:
      case Mark::kSteps:
        break;
    }
    Add(SvgLine({box.left, y}, {box.right, y}, "line s" + style));
  }

  void DrawDot(const Callout& callout) {
    if (!std::isfinite(callout.x) || !std::isfinite(callout.y)) return;
    const Spot at = layout_.At(callout.x, callout.y);
    if (callout.side == Callout::Side::kAbove) return;
    Add(SvgMarker(at, StyleOf(callout.style), callout.text));
    placer_.Occupy(
        {at.x - kDotPx, at.y - kDotPx, at.x + kDotPx, at.y + kDotPx});
  }

  // Writes `text` at that of the baselines where most room is.
  void WriteAt(absl::string_view text, absl::string_view css,
               absl::Span<const Spot> starts) {
    std::vector<Box> candidates;
    candidates.reserve(starts.size());
    for (const Spot& start : starts) {
      candidates.push_back(TextBox(start, text));
    }
    const std::optional<Box> box = placer_.Place(candidates);
    if (!box) return;
    Add(SvgText({box->left, box->top + kPlotFontPx}, Anchor::kStart, css,
                text));
  }

  void WriteCallout(const Callout& callout) {
    if (!std::isfinite(callout.x) || !std::isfinite(callout.y)) return;
    const Spot at = layout_.At(callout.x, callout.y);
    const double width = TextWidth(callout.text, kPlotFontPx);
    const double above = at.y - kWordGapPx;
    const double below = at.y + kWordGapPx + kPlotFontPx - 2;
    const double level = at.y + kPlotFontPx / 3;
    const double middle = at.x - width / 2;
    if (callout.side == Callout::Side::kAbove) {
      return WriteAt(callout.text, "ink halo", {{middle, at.y - 5}});
    }
    WriteAt(callout.text, "ink halo",
            {{at.x - width, above},
             {middle, above},
             {at.x - width - kWordGapPx, level},
             {at.x + 2, above},
             {at.x, below},
             {at.x + kWordGapPx, level},
             {middle, below},
             {at.x - width, below},
             {at.x - width, above - kPlotRowPx},
             {middle, above - kPlotRowPx},
             {at.x, below + kPlotRowPx},
             {middle, below + kPlotRowPx}});
  }

  void WriteRuleText(const Rule& rule) {
    if (!std::isfinite(rule.value)) return;
    const Box& area = layout_.area;
    const double width = TextWidth(rule.text, kPlotFontPx);
    const auto [from, to] = EndsOf(rule);
    if (rule.direction == Rule::Direction::kHorizontal) {
      const double right = area.right - width - 2;
      return WriteAt(rule.text, "ink halo",
                     {{area.left + 6, from.y - 5},
                      {right, from.y - 5},
                      {area.left + 6, from.y + 15},
                      {right, from.y + 15}});
    }
    const double left = from.x - width - 6;
    const double top = area.top + kPlotFontPx;
    const double bottom = area.bottom - 6;
    WriteAt(rule.text, "ink halo",
            {{left, top},
             {from.x + 6, top},
             {left, top + kPlotRowPx},
             {from.x + 6, top + kPlotRowPx},
             {left, bottom},
             {from.x + 6, bottom}});
  }

  void WriteShadeText(const Shade& shade) {
    const double left = layout_.PixelX(shade.from);
    WriteAt(shade.text, "", {{left, layout_.area.top - 4}});
  }

  const Plot& plot_;
  const PlotLayout& layout_;
  LabelPlacer placer_;
  std::string out_;
};

std::string Body(const Plot& plot, const PlotSize& size) {
  const PlotLayout layout = LayOut(plot, size, 0);
  return PlotWriter(plot, layout).Write();
}

}  // namespace

std::string FormatSvg(const Plot& plot, const PlotSize& size) {
  const std::string css = absl::StrCat("plot ", size.css_class);
  return absl::StrCat(
      SvgStart({size.width, size.height, css, plot.title, plot.description}),
      Body(plot, size), "</svg>\n");
}

std::string FormatStandaloneSvg(const Plot& plot, const PlotSize& size) {
  const double width = size.width + 2 * kPaddingPx;
  const double height = size.height + 2 * kPaddingPx + kTitleRowsPx;
  return absl::StrCat(
      SvgStart({width, height, "plot alone", plot.title, plot.description}),
      "<style>", PlotVariablesCss(), PlotCss(), "</style>\n",
      SvgRect({0.5, 0.5, width - 0.5, height - 0.5}, "paper", ""),
      SvgText({kPaddingPx, kPaddingPx + 17}, Anchor::kStart, "title",
              FittedText(plot.title, kTitlePx, size.width)),
      SvgText({kPaddingPx, kPaddingPx + 37}, Anchor::kStart, "subtitle",
              FittedText(plot.subtitle, kSubtitlePx, size.width)),
      "<g transform=\"translate(", SvgNumber(kPaddingPx), " ",
      SvgNumber(kPaddingPx + kTitleRowsPx), ")\">\n", Body(plot, size),
      "</g>\n</svg>\n");
}

}  // namespace qgemm
