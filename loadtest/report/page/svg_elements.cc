// SPDX-License-Identifier: Apache-2.0
//
// Writes the elements.

#include "loadtest/report/page/svg_elements.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loadtest/report/page/markup.h"
#include "loadtest/report/page/plot.h"

namespace qgemm {
namespace {

absl::string_view NameOf(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart:
      return "start";
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kEnd:
      return "end";
  }
  return "start";
}

std::string NoteElement(absl::string_view note) {
  if (note.empty()) return "";
  return absl::StrCat("<title>", EscapeMarkup(note), "</title>");
}

// The outline of a marker around the origin, about 8 px across.
absl::string_view OutlineOf(int style) {
  if (style == kErrorStyle) return "M-4-4 4 4M-4 4 4-4";
  switch (style % kPlotStyles) {
    case 0:
      return "M-4 0A4 4 0 1 0 4 0 4 4 0 1 0-4 0Z";
    case 1:
      return "M-3.6-3.6H3.6V3.6H-3.6Z";
    case 2:
      return "M0-4.8 4.6 3.4H-4.6Z";
    case 3:
      return "M0-5 5 0 0 5-5 0Z";
    case 4:
      return "M0 4.8-4.6-3.4H4.6Z";
    default:
      return "M-5-1.5H-1.5V-5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5Z";
  }
}

}  // namespace

std::string SvgNumber(double value) {
  if (!std::isfinite(value)) return "0";
  std::string digits = absl::StrFormat("%.1f", value);
  if (digits.size() > 2 && digits.compare(digits.size() - 2, 2, ".0") == 0) {
    digits.resize(digits.size() - 2);
  }
  return digits == "-0" ? "0" : digits;
}

std::string SvgText(const Spot& at, Anchor anchor, absl::string_view css,
                    absl::string_view text) {
  const std::string side =
      anchor == Anchor::kStart
          ? ""
          : absl::StrCat(" text-anchor=\"", NameOf(anchor), "\"");
  const std::string look =
      css.empty() ? "" : absl::StrCat(" class=\"", EscapeMarkup(css), "\"");
  return absl::StrCat("<text x=\"", SvgNumber(at.x), "\" y=\"", SvgNumber(at.y),
                      "\"", side, look, ">", EscapeMarkup(text), "</text>\n");
}

std::string SvgLine(const Spot& from, const Spot& to, absl::string_view css) {
  return absl::StrCat("<path class=\"", EscapeMarkup(css), "\" d=\"M",
                      SvgNumber(from.x), " ", SvgNumber(from.y), "L",
                      SvgNumber(to.x), " ", SvgNumber(to.y), "\"/>\n");
}

std::string SvgRect(const Box& box, absl::string_view css,
                    absl::string_view note) {
  return absl::StrCat("<rect class=\"", EscapeMarkup(css), "\" x=\"",
                      SvgNumber(box.left), "\" y=\"", SvgNumber(box.top),
                      "\" width=\"", SvgNumber(std::fmax(0, box.width())),
                      "\" height=\"", SvgNumber(std::fmax(0, box.height())),
                      "\">", NoteElement(note), "</rect>\n");
}

std::string SvgMarker(const Spot& at, int style, absl::string_view note) {
  return absl::StrCat("<path class=\"mark ", style == kErrorStyle ? "s" : "m",
                      style, "\" transform=\"translate(", SvgNumber(at.x), " ",
                      SvgNumber(at.y), ")\" d=\"", OutlineOf(style), "\">",
                      NoteElement(note), "</path>\n");
}

std::string SvgStart(const SvgHead& head) {
  return absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"",
      EscapeMarkup(head.css), "\" viewBox=\"0 0 ", SvgNumber(head.width), " ",
      SvgNumber(head.height), "\" role=\"img\" aria-label=\"",
      EscapeMarkup(head.title), "\">\n<title>", EscapeMarkup(head.title),
      "</title>\n<desc>", EscapeMarkup(head.description), "</desc>\n");
}

}  // namespace qgemm
