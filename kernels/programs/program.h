// SPDX-License-Identifier: Apache-2.0
//
// A program as its client declares it: a straight line of row-wise operations
// over resident weights (docs/programs.md). Plain values that may hold
// anything; checked_program.h says which are legal.

#ifndef QGEMM_KERNELS_PROGRAMS_PROGRAM_H_
#define QGEMM_KERNELS_PROGRAMS_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// The language of programs that this build speaks. A new op, attribute or legal
// value of one raises it.
inline constexpr int64_t kProgramRevision = 1;

// Element type of a program's values. kInt32 is for the ids of TOP_K alone.
enum class NumberType : uint8_t { kFloat32, kFloat16, kBFloat16, kInt32 };

enum class OpKind : uint8_t {
  kGemm,       // x * W^T + bias, of resident weights
  kAdd,        // x + y
  kMul,        // x * y
  kAct,        // activation(x)
  kClamp,      // min(max(x, low), high)
  kRmsNorm,    // x / sqrt(mean(x^2) + eps) * weight
  kLayerNorm,  // (x - mean) / sqrt(variance + eps) * weight + bias
  kSlice,      // columns [begin, begin + width) of x
  kConvert,    // x, rounded to the result's type
  kTopK,       // the k largest elements of a row, and where they stand
};

enum class Activation : uint8_t {
  kSilu,      // x * sigmoid(x)
  kSigmoid,   // 1 / (1 + e^-x)
  kGeluErf,   // x * (1 + erf(x / sqrt(2))) / 2
  kGeluTanh,  // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
  kRelu,      // max(x, 0)
  kTanh,
};

// Position of a value: inputs come first, then constants, then the results of
// the ops, in order. TOP_K has two results, every other op one.
using ValueNumber = int64_t;
inline constexpr ValueNumber kNoValue = -1;

// A value that comes with each call: [m, width].
struct ProgramInput {
  std::string name;  // for messages; may be empty
  NumberType type = NumberType::kFloat32;
  int64_t width = 0;
};

// One row that stands for every row.
struct ProgramConstant {
  std::string name;
  NumberType type = NumberType::kFloat32;
  std::vector<uint8_t> bytes;  // [width] elements of `type`, little-endian

  int64_t width() const;
};

// Fields that the kind does not use stay at their defaults; the check refuses
// others, so that equal programs have one identity.
struct ProgramOp {
  OpKind kind = OpKind::kGemm;
  std::string name;
  // Type that the result is rounded to. TOP_K: kFloat32, of the values.
  NumberType type = NumberType::kFloat32;

  // Operands: values that stand before the op's own results.
  ValueNumber x = kNoValue;            // all kinds: an input or a result
  ValueNumber y = kNoValue;            // ADD, MUL
  ValueNumber norm_weight = kNoValue;  // norms: a constant, or none
  ValueNumber norm_bias = kNoValue;    // LAYER_NORM: a constant, or none

  // GEMM: weights by name or id, and how it takes its activations.
  std::string weights;
  ComputeMode mode = ComputeMode::kA16;
  // Type that an fp32 x is rounded to in mode A16.
  FloatType rounding = FloatType::kBFloat16;

  Activation activation = Activation::kSilu;  // ACT
  float low = 0;                              // CLAMP
  float high = 0;
  float eps = 0;      // norms: added to the mean of squares or the variance
  int64_t group = 0;  // RMS_NORM: columns a mean; 0 = all of x
  int64_t begin = 0;  // SLICE: first column
  int64_t width = 0;  // SLICE: columns
  int64_t top_k = 0;  // TOP_K: elements to find
};

struct Program {
  int64_t revision = kProgramRevision;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramConstant> constants;
  std::vector<ProgramOp> ops;
  // Results, in the order in which an answer has them.
  std::vector<ValueNumber> outputs;
};

// Bytes of one element.
constexpr int64_t SizeOf(NumberType type) {
  return type == NumberType::kFloat32 || type == NumberType::kInt32 ? 4 : 2;
}

inline int64_t ProgramConstant::width() const {
  return static_cast<int64_t>(bytes.size()) / SizeOf(type);
}

// Results of an op.
constexpr int64_t ResultCount(OpKind kind) {
  return kind == OpKind::kTopK ? 2 : 1;
}

// True for the types that ops compute with.
constexpr bool IsFloat(NumberType type) {
  return type == NumberType::kFloat32 || type == NumberType::kFloat16 ||
         type == NumberType::kBFloat16;
}

// The same type as kernels name it; `type` must be a float.
FloatType FloatTypeOf(NumberType type);

// Names as the canonical text and messages have them; "?" for a value that is
// no enumerator.
absl::string_view Name(NumberType type);        // "fp32", "int32"
absl::string_view Name(OpKind kind);            // "gemm", "rms_norm"
absl::string_view Name(Activation activation);  // "silu", "gelu_tanh"

}  // namespace qgemm

#endif  // QGEMM_KERNELS_PROGRAMS_PROGRAM_H_
