// SPDX-License-Identifier: Apache-2.0
//
// The activations of programs: loops without branches, which compile to
// vectors. They compute in fp64 and round once: the tails of SILU and GELU are
// x times e^-t with t up to 88, and in fp32 the rounding of t alone would cost
// 2^6 ulp.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/row_ops.h"

namespace qgemm::cpu {
namespace {

uint64_t Bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

double FromBits(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// NaN stays NaN.
double Clamped(double x, double low, double high) {
  const double raised = x < low ? low : x;
  return raised > high ? high : raised;
}

// e^t = scale * (1 + rest), with `rest` within 2^-30 of its own size.
struct Exponential {
  double scale;
  double rest;
};

// Arguments that SplitExp takes. e^kLeastExponent vanishes beside 1, and
// e^kInfiniteExponent is infinity.
constexpr double kLeastExponent = -700;
constexpr double kInfiniteExponent = 710;

// t = n ln 2 + r with |r| <= ln 2 / 2; `scale` is 2^n, `rest` the Taylor series
// of e^r - 1 up to r^8, whose remainder is below 2^-30 of it.
Exponential SplitExp(double t) {
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2 = 0.69314718055994530942;
  // A sum with it has the integer nearest to the other term in its low bits.
  constexpr double kToInteger = 0x1.8p52;
  const double shifted = t * kLog2E + kToInteger;
  const double r = t - (shifted - kToInteger) * kLn2;
  double series = 1.0 / 40320;
  series = series * r + 1.0 / 5040;
  series = series * r + 1.0 / 720;
  series = series * r + 1.0 / 120;
  series = series * r + 1.0 / 24;
  series = series * r + 1.0 / 6;
  series = series * r + 1.0 / 2;
  series = series * r + 1;
  return {FromBits((Bits(shifted) + 1023) << 52), series * r};
}

double Exp(double t) {
  const Exponential e = SplitExp(Clamped(t, kLeastExponent, kInfiniteExponent));
  return e.scale * (1 + e.rest);
}

double Sigmoid(double x) { return 1 / (1 + Exp(-x)); }

double Silu(double x) { return x / (1 + Exp(-x)); }

// (e^2x - 1) / (e^2x + 1), without the cancellation around zero. From
// |2x| = 40 on it is 1 in fp64 too.
double Tanh(double x) {
  const Exponential e = SplitExp(Clamped(2 * x, -40, 40));
  const double minus_one = e.scale * e.rest + (e.scale - 1);
  return minus_one / (minus_one + 2);
}

// (1 + tanh(u)) / 2 is sigmoid(2 u).
double GeluTanh(double x) {
  constexpr double kTwoSqrtTwoOverPi = 1.5957691216057307117;
  return x / (1 + Exp(-kTwoSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
}

// e^(w^2) erfc(w) (1 + 2w) for w >= 0 in t = (w - 3) / (w + 3), within 2^-28:
// interpolation in the 13 Chebyshev nodes. Source of the form: Shepherd and
// Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, Math. Comp.
// 36 (1981).
double ScaledErfc(double t) {
  double sum = 3.8917515572e-06;
  sum = sum * t + 7.72041393805e-05;
  sum = sum * t - 0.000104221177107;
  sum = sum * t - 0.000726160801169;
  sum = sum * t + 0.00188821570081;
  sum = sum * t + 0.00249882261139;
  sum = sum * t - 0.0237703887114;
  sum = sum * t + 0.0683166972944;
  sum = sum * t - 0.119273678432;
  sum = sum * t + 0.129644091025;
  sum = sum * t - 0.0475622938277;
  sum = sum * t - 0.135621068221;
  return sum * t + 1.25300805827;
}

// (1 + erf(u)) / 2 is erfc(-u) / 2, for positive u 1 - erfc(u) / 2.
double GeluErf(double x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  // e^(27^2) is infinity already.
  const double w = Clamped(std::abs(x) * kSqrtHalf, 0, 27);
  const double half_erfc =
      ScaledErfc((w - 3) / (w + 3)) / ((2 + 4 * w) * Exp(w * w));
  return x * (x > 0 ? 1 - half_erfc : half_erfc);
}

double Relu(double x) { return x < 0 ? 0 : x; }

template <double (*kFunction)(double)>
void Apply(absl::Span<float> elements) {
  for (float& element : elements) {
    element = static_cast<float>(kFunction(element));
  }
}

}  // namespace

void Activate(Activation activation, absl::Span<float> elements) {
  switch (activation) {
    case Activation::kSilu:
      return Apply<Silu>(elements);
    case Activation::kSigmoid:
      return Apply<Sigmoid>(elements);
    case Activation::kGeluErf:
      return Apply<GeluErf>(elements);
    case Activation::kGeluTanh:
      return Apply<GeluTanh>(elements);
    case Activation::kRelu:
      return Apply<Relu>(elements);
    case Activation::kTanh:
      return Apply<Tanh>(elements);
  }
}

}  // namespace qgemm::cpu
