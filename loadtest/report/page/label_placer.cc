// SPDX-License-Identifier: Apache-2.0
//
// Width of text by character, and the search for a free place.

#include "loadtest/report/page/label_placer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "loadtest/report/page/markup.h"

namespace qgemm {
namespace {

// Advance widths of DejaVu Sans in em, rounded up by class of character.
double EmOf(char character) {
  constexpr absl::string_view kNarrow = " .,:;'|!/()[]ijltfIr-";
  constexpr absl::string_view kWide = "mwMW%@";
  if (kNarrow.find(character) != absl::string_view::npos) return 0.42;
  if (kWide.find(character) != absl::string_view::npos) return 0.99;
  if (character >= 'A' && character <= 'Z') return 0.78;
  if (character == '+' || character == '=' || character == '<' ||
      character == '>') {
    return 0.84;
  }
  return 0.64;
}

}  // namespace

bool Box::Contains(const Box& other) const {
  return other.left >= left && other.right <= right && other.top >= top &&
         other.bottom <= bottom;
}

bool Box::Contains(const Spot& spot) const {
  return spot.x >= left && spot.x <= right && spot.y >= top && spot.y <= bottom;
}

bool Box::Overlaps(const Box& other) const {
  return left < other.right && other.left < right && top < other.bottom &&
         other.top < bottom;
}

double TextWidth(absl::string_view text, double font_px) {
  double em = 0;
  while (!text.empty()) {
    const size_t bytes = std::max<size_t>(1, LeadingCharacterBytes(text));
    em += bytes == 1 ? EmOf(text[0]) : 0.84;
    text.remove_prefix(bytes);
  }
  return em * font_px;
}

std::string FittedText(absl::string_view text, double font_px,
                       double width_px) {
  if (TextWidth(text, font_px) <= width_px) return std::string(text);
  constexpr absl::string_view kEllipsis = "…";
  const double room = width_px - TextWidth(kEllipsis, font_px);
  size_t kept = 0;
  while (kept < text.size()) {
    const size_t bytes =
        std::max<size_t>(1, LeadingCharacterBytes(text.substr(kept)));
    if (TextWidth(text.substr(0, kept + bytes), font_px) > room) break;
    kept += bytes;
  }
  return absl::StrCat(text.substr(0, kept), kEllipsis);
}

bool LabelPlacer::IsFree(const Box& box) const {
  return area_.Contains(box) &&
         std::none_of(occupied_.begin(), occupied_.end(),
                      [&](const Box& each) { return each.Overlaps(box); });
}

int LabelPlacer::SpotsUnder(const Box& box) const {
  return static_cast<int>(
      std::count_if(avoided_.begin(), avoided_.end(),
                    [&](const Spot& each) { return box.Contains(each); }));
}

std::optional<Box> LabelPlacer::Place(absl::Span<const Box> candidates) {
  std::optional<Box> best;
  int fewest = 0;
  for (const Box& each : candidates) {
    if (!IsFree(each)) continue;
    const int spots = SpotsUnder(each);
    if (best.has_value() && spots >= fewest) continue;
    best = each;
    fewest = spots;
  }
  if (best.has_value()) Occupy(*best);
  return best;
}

}  // namespace qgemm
