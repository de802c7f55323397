// SPDX-License-Identifier: Apache-2.0

#include "loadtest/live_line.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace qgemm::loadtest {
namespace {

constexpr absl::Duration kBetweenShows = absl::Milliseconds(500);

double Microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

}  // namespace

std::string FormatLive(const SeriesPoint& point, absl::string_view label,
                       int64_t errors) {
  const double seconds = std::max(1e-9, absl::ToDoubleSeconds(point.length));
  return absl::StrFormat(
      "%s%s%6.1f s  %9.0f answers/s  p50 %.0f us  p99 %.0f us  %d in flight  "
      "%d errors",
      label, label.empty() ? "" : "  ",
      absl::ToDoubleSeconds(point.start + point.length),
      static_cast<double>(point.answers) / seconds, Microseconds(point.p50_ns),
      Microseconds(point.p99_ns), point.in_flight, errors);
}

void LiveLine::Begin(std::string label) {
  label_ = std::move(label);
  errors_ = 0;
  shown_ = -absl::InfiniteDuration();
}

void LiveLine::Show(const SeriesPoint& point) {
  errors_ += point.errors;
  if (!write_ || point.start - shown_ < kBetweenShows) return;
  shown_ = point.start;
  Put(FormatLive(point, label_, errors_));
}

void LiveLine::Say(absl::string_view step) {
  if (write_) Put(step);
}

void LiveLine::Clear() {
  if (!write_ || style_ == LiveStyle::kFile || width_ == 0) return;
  Put("");
  write_("\r");
}

void LiveLine::Put(absl::string_view text) {
  if (style_ == LiveStyle::kFile) return write_(absl::StrCat(text, "\n"));
  const size_t blanks = width_ - std::min(width_, text.size());
  write_(absl::StrCat("\r", text, std::string(blanks, ' ')));
  width_ = text.size();
}

}  // namespace qgemm::loadtest
