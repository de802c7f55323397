// SPDX-License-Identifier: Apache-2.0

#include "cli/random_values.h"

namespace qgemm {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit draw a call.
uint64_t Draw(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<float> RandomValues(int64_t count, float deviation, uint64_t seed) {
  // The sum of four uniform 16-bit numbers has this mean, and the standard
  // deviation 65536 * sqrt(4 / 12).
  constexpr float kMean = 2.0f * 65535.0f;
  constexpr float kDeviation = 65536.0f * 0.57735027f;
  const float scale = deviation / kDeviation;
  uint64_t state = seed;
  std::vector<float> values(count);
  for (float& value : values) {
    const uint64_t bits = Draw(&state);
    const auto sum =
        static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                           (bits >> 32 & 0xffff) + (bits >> 48));
    value = (sum - kMean) * scale;
  }
  return values;
}

}  // namespace qgemm
