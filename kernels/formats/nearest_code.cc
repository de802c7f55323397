// SPDX-License-Identifier: Apache-2.0
//
// Between two neighbours a and b of the sorted codebook the choice changes
// once as v grows, since fp32 subtraction is monotone. The last v that goes
// to a is found by bisection over float bits, so ties come out as the linear
// search has them. Beyond b, |v - a| and |v - b| differ by at least the gap;
// as long as that outweighs their rounding, no other pair interferes.

#include <algorithm>
#include <cmath>

#include "base/float16.h"
#include "kernels/formats/codebooks.h"

namespace qgemm {
namespace {

constexpr int kValues = 32;

// Floats in ascending order as integers, without a gap but at zero.
int32_t ToOrdered(float value) {
  const int32_t bits = static_cast<int32_t>(FloatBits(value));
  return bits >= 0 ? bits : INT32_MIN - bits;
}

float FromOrdered(int32_t ordered) {
  return FloatFromBits(
      static_cast<uint32_t>(ordered >= 0 ? ordered : INT32_MIN - ordered));
}

struct Entry {
  float value;
  uint8_t code;
};

// The largest float in [a, b) that the search gives to `a`.
float Threshold(const Entry& a, const Entry& b) {
  int32_t low = ToOrdered(a.value);
  int32_t high = ToOrdered(b.value);
  while (int64_t{high} - low > 1) {
    const int32_t middle =
        static_cast<int32_t>(low + (int64_t{high} - low) / 2);
    const float v = FromOrdered(middle);
    const float to_a = v - a.value;
    const float to_b = b.value - v;
    const bool picks_a = to_a < to_b || (to_a == to_b && a.code < b.code);
    (picks_a ? low : high) = middle;
  }
  return FromOrdered(low);
}

// Ascending values, each with the first code that has it.
std::vector<Entry> SortedEntries(absl::Span<const float> codebook) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < codebook.size(); ++i) {
    entries.push_back({codebook[i], static_cast<uint8_t>(i)});
  }
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.value < b.value; });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const Entry& a, const Entry& b) {
                              return a.value == b.value;
                            }),
                entries.end());
  return entries;
}

// True if every gap outweighs the rounding of distances from [-1, 1].
bool WellSeparated(const std::vector<Entry>& entries) {
  const double reach = 1.0 + std::max(std::fabs(entries.front().value),
                                      std::fabs(entries.back().value));
  for (size_t i = 1; i < entries.size(); ++i) {
    const double gap = double{entries[i].value} - entries[i - 1].value;
    if (gap < reach * 0x1p-20) return false;
  }
  return true;
}

uint8_t LinearSearch(absl::Span<const float> codebook, float value) {
  size_t best = 0;
  for (size_t i = 1; i < codebook.size(); ++i) {
    if (std::fabs(value - codebook[i]) < std::fabs(value - codebook[best])) {
      best = i;
    }
  }
  return static_cast<uint8_t>(best);
}

}  // namespace

NearestCode::NearestCode(absl::Span<const float> codebook)
    : codebook_(codebook.begin(), codebook.end()) {
  const std::vector<Entry> entries = SortedEntries(codebook_);
  if (!WellSeparated(entries)) return;
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    thresholds_.push_back(Threshold(entries[i], entries[i + 1]));
  }
  for (const Entry& entry : entries) codes_.push_back(entry.code);
}

void NearestCode::Find32(const float* values, uint8_t* codes) const {
  if (codes_.empty()) {
    for (int i = 0; i < kValues; ++i) {
      codes[i] = LinearSearch(codebook_, values[i]);
    }
    return;
  }
  int32_t above[kValues] = {};
  for (const float threshold : thresholds_) {
    for (int i = 0; i < kValues; ++i) above[i] += values[i] > threshold;
  }
  for (int i = 0; i < kValues; ++i) codes[i] = codes_[above[i]];
}

}  // namespace qgemm
