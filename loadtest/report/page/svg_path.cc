// SPDX-License-Identifier: Apache-2.0
//
// Thinning and path data.

#include "loadtest/report/page/svg_path.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "loadtest/report/page/svg_elements.h"

namespace qgemm {
namespace {

bool IsGap(const Spot& spot) {
  return !std::isfinite(spot.x) || !std::isfinite(spot.y);
}

// Spots first..last-1 lie in one pixel column.
void AppendColumn(absl::Span<const Spot> column, std::vector<Spot>* out) {
  const auto by_y = [](const Spot& a, const Spot& b) { return a.y < b.y; };
  const auto [low, high] =
      std::minmax_element(column.begin(), column.end(), by_y);
  std::vector<ptrdiff_t> kept = {0, low - column.begin(), high - column.begin(),
                                 static_cast<ptrdiff_t>(column.size()) - 1};
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  for (const ptrdiff_t index : kept) out->push_back(column[index]);
}

// Where the stretch of finite spots that begins at `first` ends.
size_t EndOfRun(absl::Span<const Spot> spots, size_t first) {
  while (first < spots.size() && !IsGap(spots[first])) ++first;
  return first;
}

// Appends one command, the shortest that leads from `from` to `to`.
void AppendStep(const Spot& from, const Spot& to, std::string* path) {
  const std::string x = SvgNumber(to.x);
  const std::string y = SvgNumber(to.y);
  const bool same_x = x == SvgNumber(from.x);
  const bool same_y = y == SvgNumber(from.y);
  if (same_x && same_y) return;
  if (same_y) {
    absl::StrAppend(path, "H", x);
  } else if (same_x) {
    absl::StrAppend(path, "V", y);
  } else {
    absl::StrAppend(path, "L", x, " ", y);
  }
}

void AppendRun(absl::Span<const Spot> run, std::string* path) {
  absl::StrAppend(path, "M", SvgNumber(run[0].x), " ", SvgNumber(run[0].y));
  const size_t start = path->size();
  for (size_t i = 1; i < run.size(); ++i) {
    AppendStep(run[i - 1], run[i], path);
  }
  // Nothing is drawn without a command, a dot with this one and round caps.
  if (path->size() == start) absl::StrAppend(path, "h0");
}

}  // namespace

std::vector<Spot> StepCorners(absl::Span<const Spot> spots) {
  std::vector<Spot> corners;
  for (size_t i = 0; i < spots.size(); ++i) {
    corners.push_back(spots[i]);
    if (IsGap(spots[i]) || i + 1 == spots.size()) continue;
    if (!std::isfinite(spots[i + 1].x)) continue;
    corners.push_back({spots[i + 1].x, spots[i].y});
  }
  return corners;
}

std::vector<Spot> Thinned(absl::Span<const Spot> spots) {
  std::vector<Spot> out;
  size_t i = 0;
  while (i < spots.size()) {
    if (IsGap(spots[i])) {
      out.push_back(spots[i++]);
      continue;
    }
    const size_t first = i;
    const double column = std::floor(spots[i].x);
    while (i < spots.size() && !IsGap(spots[i]) &&
           std::floor(spots[i].x) == column) {
      ++i;
    }
    AppendColumn(spots.subspan(first, i - first), &out);
  }
  return out;
}

std::string LinePath(absl::Span<const Spot> spots) {
  std::string path;
  size_t i = 0;
  while (i < spots.size()) {
    const size_t end = EndOfRun(spots, i);
    if (end > i) AppendRun(spots.subspan(i, end - i), &path);
    i = end + 1;
  }
  return path;
}

std::string AreaPath(absl::Span<const Spot> low, absl::Span<const Spot> high) {
  std::string path;
  const size_t size = std::min(low.size(), high.size());
  size_t i = 0;
  while (i < size) {
    const size_t end =
        std::min(EndOfRun(low.first(size), i), EndOfRun(high.first(size), i));
    if (end > i) {
      std::vector<Spot> outline(low.begin() + i, low.begin() + end);
      outline.insert(outline.end(), high.rend() - end, high.rend() - i);
      AppendRun(outline, &path);
      absl::StrAppend(&path, "Z");
    }
    i = end + 1;
  }
  return path;
}

std::vector<Spot> AlongLine(absl::Span<const Spot> spots, double pitch_px) {
  std::vector<Spot> out;
  for (size_t i = 0; i + 1 < spots.size(); ++i) {
    const Spot& from = spots[i];
    const Spot& to = spots[i + 1];
    if (IsGap(from) || IsGap(to)) continue;
    const double length = std::hypot(to.x - from.x, to.y - from.y);
    const int pieces = std::max(1, static_cast<int>(length / pitch_px));
    for (int k = 0; k <= pieces; ++k) {
      const double part = static_cast<double>(k) / pieces;
      out.push_back(
          {from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part});
    }
  }
  return out;
}

}  // namespace qgemm
