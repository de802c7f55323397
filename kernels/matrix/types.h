// SPDX-License-Identifier: Apache-2.0
//
// The scalar vocabulary of a multiplication: element types, compute modes and
// the signature that requests must share to run in one batch.

#ifndef QGEMM_KERNELS_MATRIX_TYPES_H_
#define QGEMM_KERNELS_MATRIX_TYPES_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace qgemm {

// Element type of activations, results and dense weights.
enum class FloatType : uint8_t { kFloat32, kFloat16, kBFloat16 };

// Element type of quantization scales.
enum class ScaleType : uint8_t { kE4m4, kFloat16, kBFloat16, kFloat32 };

// Precision that the activations keep (docs/formats.md#compute-modes).
enum class ComputeMode : uint8_t {
  kA16,  // fp16 or bf16; fp32 input is rounded once to `rounding`
  kA8,   // quantized to Q8_1, integer dots; Q4_0 weights only
  kA32,  // fp32-accurate; weights whose codes are exact integers
};

// Requests with equal weights and equal signatures may share a launch.
struct MatmulSignature {
  FloatType a_type = FloatType::kFloat16;
  FloatType c_type = FloatType::kFloat16;
  ComputeMode mode = ComputeMode::kA16;
  // Type that fp32 activations are rounded to in mode A16: kFloat16 or
  // kBFloat16. Ignored, and to be left at the default, for other inputs and
  // modes.
  FloatType rounding = FloatType::kBFloat16;

  friend bool operator==(const MatmulSignature& a, const MatmulSignature& b) {
    return a.a_type == b.a_type && a.c_type == b.c_type && a.mode == b.mode &&
           a.rounding == b.rounding;
  }
  friend bool operator!=(const MatmulSignature& a, const MatmulSignature& b) {
    return !(a == b);
  }
};

// Bytes of one element.
constexpr int64_t SizeOf(FloatType type) {
  return type == FloatType::kFloat32 ? 4 : 2;
}
constexpr int64_t SizeOf(ScaleType type) {
  switch (type) {
    case ScaleType::kE4m4:
      return 1;
    case ScaleType::kFloat16:
    case ScaleType::kBFloat16:
      return 2;
    case ScaleType::kFloat32:
      return 4;
  }
  return 0;
}

// "fp32", "fp16", "bf16".
absl::string_view Name(FloatType type);
// "e4m4", "fp16", "bf16", "fp32".
absl::string_view Name(ScaleType type);
// "A16", "A8", "A32".
absl::string_view Name(ComputeMode mode);

// The element at `bytes` as a float; exact for every type. `bytes` need not
// be aligned.
float LoadFloat(FloatType type, const uint8_t* bytes);
float LoadScale(ScaleType type, const uint8_t* bytes);

// Stores `value` at `bytes`, rounded once to nearest even.
void StoreFloat(FloatType type, float value, uint8_t* bytes);

// `value` rounded once to `type`, as a float.
float RoundTo(FloatType type, float value);

// E4M4 (docs/formats.md#e4m4): unsigned, 4 exponent bits with bias 11, 4
// mantissa bits. Exact.
float E4m4ToFloat(uint8_t code);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_MATRIX_TYPES_H_
