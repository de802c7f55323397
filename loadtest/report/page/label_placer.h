// SPDX-License-Identifier: Apache-2.0
//
// Finds room for text in a picture whose fonts are known only to its reader:
// widths are those of DejaVu Sans, the widest of the usual system fonts.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_LABEL_PLACER_H_
#define QGEMM_LOADTEST_REPORT_PAGE_LABEL_PLACER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace qgemm {

// Of a picture; y grows downwards. In pixels of its view box, as are all
// lengths here.
struct Spot {
  double x = 0;
  double y = 0;
};

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  double width() const { return right - left; }
  double height() const { return bottom - top; }
  bool Contains(const Box& other) const;
  bool Contains(const Spot& spot) const;
  bool Overlaps(const Box& other) const;
};

// Of one line of UTF-8 in a font of `font_px`; no less than a browser makes it
// in any usual system font.
double TextWidth(absl::string_view text, double font_px);

// The text, or as much of its start as fits before an ellipsis.
std::string FittedText(absl::string_view text, double font_px, double width_px);

// Not thread-safe.
class LabelPlacer {
 public:
  // Labels stay within `area`.
  explicit LabelPlacer(const Box& area) : area_(area) {}

  // Nothing is placed on it any more.
  void Occupy(const Box& box) { occupied_.push_back(box); }
  // Labels keep off such spots if they can.
  void Avoid(const Spot& spot) { avoided_.push_back(spot); }

  bool IsFree(const Box& box) const;
  // Occupies that free candidate which covers the fewest spots to be avoided,
  // of several the first. Nothing if none is free.
  std::optional<Box> Place(absl::Span<const Box> candidates);

 private:
  int SpotsUnder(const Box& box) const;

  const Box area_;
  std::vector<Box> occupied_;
  std::vector<Spot> avoided_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_LABEL_PLACER_H_
