// SPDX-License-Identifier: Apache-2.0
//
// The activations of programs (docs/programs.md#operations), each within 4 ulp
// of fp32 or 2^-120; infinities and NaN come out as the formulas have them. All
// compute in fp32 but GELU_ERF and the argument of GELU_TANH. Host code can run
// them too.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_ACTIVATIONS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_ACTIVATIONS_CUH_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/host_device.h"

namespace qgemm::cuda {

// 2^n, for n in [-126, 127].
QGEMM_HOST_DEVICE float PowerOfTwo(int n) {
  const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
  float power;
  memcpy(&power, &bits, sizeof(power));
  return power;
}

// e^(high + low), within 1 ulp, for high in [-87, 88] and a low within an ulp
// of it. The low part is what an argument of the exponential must have beyond
// fp32: an error of it is one of the result, 2^6 times as large in ulp.
QGEMM_HOST_DEVICE float Exp(float high, float low) {
  constexpr float kLog2E = 1.44269504f;
  // ln 2 in two parts, of which the first has 15 bits: n times it is exact.
  constexpr float kLn2High = 0.693145752f;
  constexpr float kLn2Low = 1.42860677e-6f;
  const float n = rintf(high * kLog2E);
  const float r = fmaf(n, -kLn2Low, fmaf(n, -kLn2High, high)) + low;
  // The Taylor series of (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2: what follows
  // r^5 is below 2^-28 of e^r.
  float series = 1.0f / 5040;
  series = fmaf(series, r, 1.0f / 720);
  series = fmaf(series, r, 1.0f / 120);
  series = fmaf(series, r, 1.0f / 24);
  series = fmaf(series, r, 1.0f / 6);
  series = fmaf(series, r, 0.5f);
  return PowerOfTwo(static_cast<int>(n)) * (1 + fmaf(series, r * r, r));
}

// The lesser number; NaN if x is that.
QGEMM_HOST_DEVICE float AtMost(float limit, float x) {
  return x > limit ? limit : x;
}

// From 20 on e^-x vanishes beside 1. Below -88 the result is below 2^-120.
QGEMM_HOST_DEVICE float Sigmoid(float x) {
  if (x < -88) return 0;
  return 1 / (1 + Exp(-AtMost(20, x), 0));
}

// The zero below -88 is a product with x, as in the tails of both GELU: it has
// the sign, and is NaN for an infinity.
QGEMM_HOST_DEVICE float Silu(float x) {
  if (x < -88) return x * 0.0f;
  return x / (1 + Exp(-AtMost(20, x), 0));
}

QGEMM_HOST_DEVICE float Tanh(float x) { return tanhf(x); }

// x / (1 + e^-t), t = x (a + b x^2) with a = 2 sqrt(2 / pi) and b = 0.044715 a.
QGEMM_HOST_DEVICE float GeluTanh(float x) {
  constexpr double kA = 1.5957691216057307117;
  constexpr double kB = 0.044715 * kA;
  if (x < -10) return x * 0.0f;   // below 2^-120
  const double z = AtMost(5, x);  // from here on the result is x
  const double t = z * (kA + kB * (z * z));
  const float high = static_cast<float>(t);
  return x / (1 + Exp(-high, -static_cast<float>(t - high)));
}

// e^t within 2^-30, for t in [-700, 0].
QGEMM_HOST_DEVICE double Exp(double t) {
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2 = 0.69314718055994530942;
  // A sum with it has the integer nearest to the other term in its low bits.
  constexpr double kToInteger = 6755399441055744.0;  // 1.5 * 2^52
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
  uint64_t bits;
  memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof(power));
  return power * (series * r + 1);
}

// 1 / x within 2^-44, for an x whose reciprocal is a normal number of fp32.
QGEMM_HOST_DEVICE double Reciprocal(double x) {
  const double guess = 1 / static_cast<float>(x);
  return guess * (2 - x * guess);
}

// e^(w^2) erfc(w) (1 + 2w) for w >= 0 in t = (w - 3) / (w + 3), within 2^-28:
// interpolation in the 13 Chebyshev nodes. Source of the form: Shepherd and
// Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, Math. Comp.
// 36 (1981).
QGEMM_HOST_DEVICE double ScaledErfc(double t) {
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
QGEMM_HOST_DEVICE float GeluErf(float x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  if (x < -14) return x * 0.0f;  // below 2^-120
  const double magnitude = AtMost(14, fabsf(x));
  const double w = magnitude * kSqrtHalf;
  const double denominator = 2 + 4 * w;
  const double inverse = Reciprocal((w + 3) * denominator);
  const double half_erfc = ScaledErfc((w - 3) * denominator * inverse) *
                           ((w + 3) * inverse) *
                           Exp(-0.5 * (magnitude * magnitude));
  return static_cast<float>(x * (x > 0 ? 1 - half_erfc : half_erfc));
}

QGEMM_HOST_DEVICE float Relu(float x) { return x < 0 ? 0 : x; }

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_ACTIVATIONS_CUH_
