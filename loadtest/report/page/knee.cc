// SPDX-License-Identifier: Apache-2.0
//
// Distances to the chord.

#include "loadtest/report/page/knee.h"

#include <cmath>

namespace qgemm {
namespace {

// Less of a bend is noise.
constexpr double kSmallestBend = 0.05;
constexpr double kRounding = 1e-9;

bool IsUsable(const RatePoint& point) {
  return std::isfinite(point.rate) && std::isfinite(point.latency_ns) &&
         point.rate > 0 && point.latency_ns > 0;
}

// The usable points with the lowest and the highest rate.
struct Chord {
  RatePoint first;
  RatePoint last;
  int points = 0;
};

Chord ChordOf(absl::Span<const RatePoint> points) {
  Chord chord;
  for (const RatePoint& point : points) {
    if (!IsUsable(point)) continue;
    if (chord.points == 0 || point.rate < chord.first.rate) chord.first = point;
    if (chord.points == 0 || point.rate > chord.last.rate) chord.last = point;
    ++chord.points;
  }
  return chord;
}

// How far the point is below the chord, in units of the chord's height.
double BendAt(const RatePoint& point, const Chord& chord) {
  const double x =
      (point.rate - chord.first.rate) / (chord.last.rate - chord.first.rate);
  const double y = std::log(point.latency_ns / chord.first.latency_ns) /
                   std::log(chord.last.latency_ns / chord.first.latency_ns);
  return x - y;
}

}  // namespace

std::optional<size_t> FindKnee(absl::Span<const RatePoint> points) {
  const Chord chord = ChordOf(points);
  if (chord.points < 3 || chord.last.rate <= chord.first.rate ||
      chord.last.latency_ns <= chord.first.latency_ns) {
    return std::nullopt;
  }
  std::optional<size_t> knee;
  double largest = kSmallestBend;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!IsUsable(points[i])) continue;
    const double bend = BendAt(points[i], chord);
    if (bend <= largest) continue;
    largest = bend;
    knee = i;
  }
  return knee;
}

std::optional<size_t> FindRate(absl::Span<const RatePoint> points,
                               double rate) {
  std::optional<size_t> best;
  for (size_t i = 0; i < points.size(); ++i) {
    const double each = points[i].rate;
    if (!(each > 0) || !(each <= rate * (1 + kRounding))) continue;
    if (!best || each > points[*best].rate) best = i;
  }
  return best;
}

}  // namespace qgemm
