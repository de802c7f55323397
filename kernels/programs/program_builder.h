// SPDX-License-Identifier: Apache-2.0
//
// Builds a program (docs/programs.md) op by op: numbers its values, rounds its
// constants and fills in types. checked_program.h says if the result is legal.

#ifndef QGEMM_KERNELS_PROGRAMS_PROGRAM_BUILDER_H_
#define QGEMM_KERNELS_PROGRAMS_PROGRAM_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "kernels/matrix/types.h"
#include "kernels/programs/program.h"

namespace qgemm {

// A value [m, width] of the builder that gave it: an input or a result.
struct RowsHandle {
  ValueNumber draft_number = kNoValue;  // the builder's own
};

// A constant of the builder that gave it. Default-constructed: none.
struct ConstantHandle {
  ValueNumber draft_number = kNoValue;
};

// The two results of TOP_K, [m, k] each. No op reads the ids.
struct TopKHandles {
  RowsHandle values;  // fp32
  RowsHandle ids;     // int32
};

// Name and type of an input, a constant or a result. Either stands for both.
struct ValueOptions {
  ValueOptions() = default;
  ValueOptions(std::string name_of_value,  // NOLINT(google-explicit-*)
               std::optional<NumberType> type_of_value = std::nullopt)
      : name(std::move(name_of_value)), type(type_of_value) {}
  ValueOptions(NumberType type_of_value)  // NOLINT(google-explicit-*)
      : type(type_of_value) {}

  std::string name;                // for messages; may be empty
  std::optional<NumberType> type;  // unset: the builder's default
};

// Mode and rounding of a GEMM's activations.
struct GemmPrecision {
  GemmPrecision() = default;
  GemmPrecision(ComputeMode mode_of_gemm,  // NOLINT(google-explicit-*)
                FloatType rounding_of_x = FloatType::kBFloat16)
      : mode(mode_of_gemm), rounding(rounding_of_x) {}

  ComputeMode mode = ComputeMode::kA16;
  // Mode A16 with an fp32 operand: the type that it is rounded to.
  FloatType rounding = FloatType::kBFloat16;
};

// Adds inputs, constants and ops in any order in which an operand stands before
// the op that reads it. Nothing is checked here: CheckProgram names the op that
// has a wrong operand. Not thread-safe.
//
//   ProgramBuilder builder(NumberType::kBFloat16);
//   const RowsHandle a = builder.Input(4096);
//   const RowsHandle h = builder.Act(builder.Gemm(a, "gate"),
//                                    Activation::kSilu);
//   builder.Output(builder.Gemm(h, "down", {"down", NumberType::kFloat32}));
//   Program program = builder.Build();
class ProgramBuilder {
 public:
  // `type` is that of every value whose options name none.
  explicit ProgramBuilder(NumberType type) : type_(type) {}

  RowsHandle Input(int64_t width, const ValueOptions& options = {});
  // The values are rounded to the constant's type, to nearest even; it must be
  // a float.
  ConstantHandle Constant(absl::Span<const float> values,
                          const ValueOptions& options = {});
  // [width] elements of the constant's type, little-endian.
  ConstantHandle ConstantBytes(std::vector<uint8_t> bytes,
                               const ValueOptions& options = {});

  // x * W^T + bias, of resident weights by name or id.
  RowsHandle Gemm(RowsHandle x, const std::string& weights,
                  const ValueOptions& options = {},
                  const GemmPrecision& precision = {});
  // y is as wide as x, or of width 1.
  RowsHandle Add(RowsHandle x, RowsHandle y, const ValueOptions& options = {});
  RowsHandle Add(RowsHandle x, ConstantHandle y,
                 const ValueOptions& options = {});
  RowsHandle Mul(RowsHandle x, RowsHandle y, const ValueOptions& options = {});
  RowsHandle Mul(RowsHandle x, ConstantHandle y,
                 const ValueOptions& options = {});
  RowsHandle Act(RowsHandle x, Activation activation,
                 const ValueOptions& options = {});
  RowsHandle Clamp(RowsHandle x, float low, float high,
                   const ValueOptions& options = {});
  // `weight` may be none. `group` columns have a mean of their own; 0: all.
  RowsHandle RmsNorm(RowsHandle x, ConstantHandle weight, float eps,
                     int64_t group = 0, const ValueOptions& options = {});
  // `weight` and `bias` may be none.
  RowsHandle LayerNorm(RowsHandle x, ConstantHandle weight, ConstantHandle bias,
                       float eps, const ValueOptions& options = {});
  RowsHandle Slice(RowsHandle x, int64_t begin, int64_t width,
                   const ValueOptions& options = {});
  RowsHandle Convert(RowsHandle x, NumberType type,
                     const std::string& name = "");
  TopKHandles TopK(RowsHandle x, int64_t k, const std::string& name = "");

  // Appends a result to the outputs.
  void Output(RowsHandle result);

  // The program so far. More may be added behind it.
  Program Build() const;

 private:
  // Appends an op; its attributes are the caller's to set.
  ProgramOp& Append(OpKind kind, RowsHandle x, const ValueOptions& options);
  // The first result of the last op.
  RowsHandle LastResult() const;
  RowsHandle Binary(OpKind kind, RowsHandle x, ValueNumber y,
                    const ValueOptions& options);
  ValueNumber FinalNumber(ValueNumber draft_number) const;

  const NumberType type_;
  Program program_;  // with draft numbers
  int64_t results_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_PROGRAMS_PROGRAM_BUILDER_H_
