// SPDX-License-Identifier: Apache-2.0
//
// Checked arithmetic against 128-bit integers.

#include "base/checked_math.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

std::optional<int64_t> Narrow(__int128 value) {
  if (value < kMin || value > kMax) return std::nullopt;
  return static_cast<int64_t>(value);
}

// Boundaries, and random values of every magnitude.
std::vector<int64_t> Operands() {
  std::vector<int64_t> operands = {0,        1,         -1,        2,
                                   -2,       kMax,      kMax - 1,  kMin,
                                   kMin + 1, 1LL << 31, 1LL << 32, 3037000500};
  const uint64_t seed = std::random_device{}();
  testing::Test::RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int shift = 0; shift < 64; ++shift) {
    operands.push_back(static_cast<int64_t>(random()) >> shift);
  }
  return operands;
}

TEST(CheckedMathTest, MultipliesOrReportsOverflow) {
  const std::vector<int64_t> operands = Operands();
  for (const int64_t a : operands) {
    for (const int64_t b : operands) {
      ASSERT_EQ(CheckedMul(a, b), Narrow(static_cast<__int128>(a) * b))
          << a << " * " << b;
    }
  }
}

TEST(CheckedMathTest, AddsOrReportsOverflow) {
  const std::vector<int64_t> operands = Operands();
  for (const int64_t a : operands) {
    for (const int64_t b : operands) {
      ASSERT_EQ(CheckedAdd(a, b), Narrow(static_cast<__int128>(a) + b))
          << a << " + " << b;
    }
  }
}

}  // namespace
}  // namespace qgemm
