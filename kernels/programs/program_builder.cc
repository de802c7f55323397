// SPDX-License-Identifier: Apache-2.0
//
// A value's number depends on how many inputs and constants there are, which is
// known at the end: until then each kind counts from a base of its own.

#include "kernels/programs/program_builder.h"

#include <utility>

namespace qgemm {
namespace {

// Far apart: no program has so many values.
constexpr ValueNumber kFirstConstant = ValueNumber{1} << 40;
constexpr ValueNumber kFirstResult = ValueNumber{1} << 41;

}  // namespace

RowsHandle ProgramBuilder::Input(int64_t width, const ValueOptions& options) {
  program_.inputs.push_back(
      {options.name, options.type.value_or(type_), width});
  return {static_cast<ValueNumber>(program_.inputs.size()) - 1};
}

ConstantHandle ProgramBuilder::Constant(absl::Span<const float> values,
                                        const ValueOptions& options) {
  const FloatType type = FloatTypeOf(options.type.value_or(type_));
  std::vector<uint8_t> bytes(values.size() * SizeOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    StoreFloat(type, values[i], bytes.data() + i * SizeOf(type));
  }
  return ConstantBytes(std::move(bytes), options);
}

ConstantHandle ProgramBuilder::ConstantBytes(std::vector<uint8_t> bytes,
                                             const ValueOptions& options) {
  const auto number = static_cast<ValueNumber>(program_.constants.size());
  program_.constants.push_back(
      {options.name, options.type.value_or(type_), std::move(bytes)});
  return {kFirstConstant + number};
}

ProgramOp& ProgramBuilder::Append(OpKind kind, RowsHandle x,
                                  const ValueOptions& options) {
  ProgramOp op;
  op.kind = kind;
  op.name = options.name;
  op.type = options.type.value_or(type_);
  op.x = x.draft_number;
  results_ += ResultCount(kind);
  program_.ops.push_back(std::move(op));
  return program_.ops.back();
}

RowsHandle ProgramBuilder::LastResult() const {
  return {kFirstResult + results_ - ResultCount(program_.ops.back().kind)};
}

RowsHandle ProgramBuilder::Gemm(RowsHandle x, const std::string& weights,
                                const ValueOptions& options,
                                const GemmPrecision& precision) {
  ProgramOp& op = Append(OpKind::kGemm, x, options);
  op.weights = weights;
  op.mode = precision.mode;
  op.rounding = precision.rounding;
  return LastResult();
}

RowsHandle ProgramBuilder::Binary(OpKind kind, RowsHandle x, ValueNumber y,
                                  const ValueOptions& options) {
  Append(kind, x, options).y = y;
  return LastResult();
}

RowsHandle ProgramBuilder::Add(RowsHandle x, RowsHandle y,
                               const ValueOptions& options) {
  return Binary(OpKind::kAdd, x, y.draft_number, options);
}

RowsHandle ProgramBuilder::Add(RowsHandle x, ConstantHandle y,
                               const ValueOptions& options) {
  return Binary(OpKind::kAdd, x, y.draft_number, options);
}

RowsHandle ProgramBuilder::Mul(RowsHandle x, RowsHandle y,
                               const ValueOptions& options) {
  return Binary(OpKind::kMul, x, y.draft_number, options);
}

RowsHandle ProgramBuilder::Mul(RowsHandle x, ConstantHandle y,
                               const ValueOptions& options) {
  return Binary(OpKind::kMul, x, y.draft_number, options);
}

RowsHandle ProgramBuilder::Act(RowsHandle x, Activation activation,
                               const ValueOptions& options) {
  Append(OpKind::kAct, x, options).activation = activation;
  return LastResult();
}

RowsHandle ProgramBuilder::Clamp(RowsHandle x, float low, float high,
                                 const ValueOptions& options) {
  ProgramOp& op = Append(OpKind::kClamp, x, options);
  op.low = low;
  op.high = high;
  return LastResult();
}

RowsHandle ProgramBuilder::RmsNorm(RowsHandle x, ConstantHandle weight,
                                   float eps, int64_t group,
                                   const ValueOptions& options) {
  ProgramOp& op = Append(OpKind::kRmsNorm, x, options);
  op.norm_weight = weight.draft_number;
  op.eps = eps;
  op.group = group;
  return LastResult();
}

RowsHandle ProgramBuilder::LayerNorm(RowsHandle x, ConstantHandle weight,
                                     ConstantHandle bias, float eps,
                                     const ValueOptions& options) {
  ProgramOp& op = Append(OpKind::kLayerNorm, x, options);
  op.norm_weight = weight.draft_number;
  op.norm_bias = bias.draft_number;
  op.eps = eps;
  return LastResult();
}

RowsHandle ProgramBuilder::Slice(RowsHandle x, int64_t begin, int64_t width,
                                 const ValueOptions& options) {
  ProgramOp& op = Append(OpKind::kSlice, x, options);
  op.begin = begin;
  op.width = width;
  return LastResult();
}

RowsHandle ProgramBuilder::Convert(RowsHandle x, NumberType type,
                                   const std::string& name) {
  Append(OpKind::kConvert, x, {name, type});
  return LastResult();
}

TopKHandles ProgramBuilder::TopK(RowsHandle x, int64_t k,
                                 const std::string& name) {
  Append(OpKind::kTopK, x, {name, NumberType::kFloat32}).top_k = k;
  const RowsHandle values = LastResult();
  return {values, {values.draft_number + 1}};
}

void ProgramBuilder::Output(RowsHandle result) {
  program_.outputs.push_back(result.draft_number);
}

ValueNumber ProgramBuilder::FinalNumber(ValueNumber draft_number) const {
  const auto inputs = static_cast<ValueNumber>(program_.inputs.size());
  const auto constants = static_cast<ValueNumber>(program_.constants.size());
  if (draft_number >= kFirstResult) {
    return inputs + constants + draft_number - kFirstResult;
  }
  if (draft_number >= kFirstConstant) {
    return inputs + draft_number - kFirstConstant;
  }
  return draft_number;  // an input or none
}

Program ProgramBuilder::Build() const {
  Program program = program_;
  for (ProgramOp& op : program.ops) {
    for (ValueNumber* operand :
         {&op.x, &op.y, &op.norm_weight, &op.norm_bias}) {
      *operand = FinalNumber(*operand);
    }
  }
  for (ValueNumber& output : program.outputs) output = FinalNumber(output);
  return program;
}

}  // namespace qgemm
