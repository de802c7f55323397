// SPDX-License-Identifier: Apache-2.0

#include "loadtest/live_line.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace qgemm::loadtest {

void LiveLine::Begin(std::string label) {
  label_ = std::move(label);
  errors_ = 0;
  shown_ = -absl::InfiniteDuration();
}

void LiveLine::Show(const SeriesPoint& point) {
  errors_ += point.errors;
  if (point.start - shown_ < absl::Milliseconds(500)) return;
  shown_ = point.start;
  const double seconds = std::max(1e-9, absl::ToDoubleSeconds(point.length));
  Say(absl::StrFormat(
      "%s%s%6.1f s  %9.0f answers/s  p50 %.0f us  p99 %.0f us  %d in flight  "
      "%d errors",
      label_, label_.empty() ? "" : "  ",
      absl::ToDoubleSeconds(point.start + point.length),
      static_cast<double>(point.answers) / seconds,
      static_cast<double>(point.p50_ns) / 1000,
      static_cast<double>(point.p99_ns) / 1000, point.in_flight, errors_));
}

void LiveLine::Say(absl::string_view text) {
  if (out_ == nullptr) return;
  constexpr absl::string_view kEraseToEnd = "\x1b[K";
  if (is_terminal_) *out_ << '\r' << text << kEraseToEnd;
  if (!is_terminal_ && !text.empty()) *out_ << absl::StrCat(text, "\n");
}

}  // namespace qgemm::loadtest
