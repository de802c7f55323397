// SPDX-License-Identifier: Apache-2.0
//
// Activations against fp64 over all of fp32: every exponent and both signs,
// densely where the functions bend.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/float16.h"
#include "gtest/gtest.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/reference/op_judge.h"
#include "kernels/reference/row_ops.h"
#include "tests/support/seeds.h"

namespace qgemm::cpu {
namespace {

constexpr Activation kSmooth[] = {Activation::kSilu, Activation::kSigmoid,
                                  Activation::kGeluErf, Activation::kGeluTanh,
                                  Activation::kTanh};

// The header promises a quarter of what docs/programs.md does.
double Bound(double expected) {
  return std::max(reference::ActivationBound(expected) / 4, 0x1p-120);
}

// Appends numbers of one exponent: its ends, and `count` between, evenly, from
// a random one on; of both signs.
void AppendExponent(uint32_t exponent, uint32_t count, RandomGenerator* random,
                    std::vector<float>* values) {
  const uint32_t step = (uint32_t{1} << 23) / count;
  const auto start = static_cast<uint32_t>(RandomInt(0, step - 1, random));
  std::vector<uint32_t> fractions = {0, 1, 0x7fffff};
  for (uint32_t i = 0; i < count; ++i) fractions.push_back(start + i * step);
  for (const uint32_t fraction : fractions) {
    const uint32_t magnitude = exponent << 23 | fraction;
    values->push_back(FloatFromBits(magnitude));
    values->push_back(FloatFromBits(magnitude | 0x80000000u));
  }
}

// All finite exponents; those of 2^-6 to 2^7 densely.
std::vector<float> Sweep(RandomGenerator* random) {
  std::vector<float> values;
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    const bool dense = exponent >= 127 - 6 && exponent <= 127 + 7;
    AppendExponent(exponent, dense ? 8192 : 64, random, &values);
  }
  return values;
}

TEST(ActivationsTest, AreWithinTheirBoundOverAllOfFp32) {
  RandomGenerator random(FreshSeed());
  const std::vector<float> x = Sweep(&random);
  for (const Activation activation : kSmooth) {
    std::vector<float> actual = x;
    Activate(activation, absl::MakeSpan(actual));
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = reference::Activate(activation, x[i]);
      const double ratio = std::abs(actual[i] - expected) / Bound(expected);
      if (ratio <= worst) continue;
      worst = ratio;
      where = x[i];
    }
    EXPECT_LE(worst, 1) << Name(activation) << " of " << where;
  }
}

TEST(ActivationsTest, InfinitiesAndNanGoThroughTheFormulas) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x = {kInfinity, -kInfinity,
                          std::numeric_limits<float>::quiet_NaN()};
  // Vectors and the elements behind the last whole one.
  for (int i = 0; i < 8; ++i) x.push_back(x[i % 3]);
  for (const Activation activation : kSmooth) {
    std::vector<float> actual = x;
    Activate(activation, absl::MakeSpan(actual));
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = reference::Activate(activation, x[i]);
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(actual[i])
                                       : actual[i] == expected)
          << Name(activation) << " of " << x[i] << " is " << actual[i];
    }
  }
}

TEST(ActivationsTest, AnElementDoesNotDependOnItsPlace) {
  RandomGenerator random(FreshSeed());
  std::vector<float> x;
  for (int i = 0; i < 37; ++i) x.push_back(9 * RandomSigned(&random));
  for (const Activation activation : kSmooth) {
    std::vector<float> together = x;
    Activate(activation, absl::MakeSpan(together));
    for (size_t i = 0; i < x.size(); ++i) {
      float alone = x[i];
      Activate(activation, absl::MakeSpan(&alone, 1));
      EXPECT_EQ(alone, together[i]) << Name(activation) << " of " << x[i];
    }
  }
}

TEST(ActivationsTest, ReluKeepsPositivesNanAndMinusZero) {
  std::vector<float> x = {2, -2, -0.0f, 0x1p-149f, -0x1p-149f, std::nanf("")};
  Activate(Activation::kRelu, absl::MakeSpan(x));
  EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 5),
            (std::vector<float>{2, 0, -0.0f, 0x1p-149f, 0}));
  EXPECT_TRUE(std::signbit(x[2]));
  EXPECT_TRUE(std::isnan(x[5]));
}

}  // namespace
}  // namespace qgemm::cpu
