// SPDX-License-Identifier: Apache-2.0
//
// The table, and an op's fields by it.

#include "kernels/programs/op_fields.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/float16.h"

namespace qgemm {
namespace {

// One bit a field, in the order of the canonical text.
enum FieldBit : uint32_t {
  kX = 1 << 0,
  kY = 1 << 1,
  kWeight = 1 << 2,
  kBias = 1 << 3,
  kWeights = 1 << 4,
  kMode = 1 << 5,
  kRounding = 1 << 6,
  kActivation = 1 << 7,
  kLow = 1 << 8,
  kHigh = 1 << 9,
  kEps = 1 << 10,
  kGroup = 1 << 11,
  kBegin = 1 << 12,
  kWidth = 1 << 13,
  kCount = 1 << 14,
};

struct OpRow {
  OpKind kind;
  absl::string_view name;
  uint32_t required;
  uint32_t optional;
};

constexpr OpRow kOpTable[] = {
    {OpKind::kGemm, "gemm", kX | kWeights | kMode | kRounding, 0},
    {OpKind::kAdd, "add", kX | kY, 0},
    {OpKind::kMul, "mul", kX | kY, 0},
    {OpKind::kAct, "act", kX | kActivation, 0},
    {OpKind::kClamp, "clamp", kX | kLow | kHigh, 0},
    {OpKind::kRmsNorm, "rms_norm", kX | kEps | kGroup, kWeight},
    {OpKind::kLayerNorm, "layer_norm", kX | kEps, kWeight | kBias},
    {OpKind::kSlice, "slice", kX | kBegin | kWidth, 0},
    {OpKind::kConvert, "convert", kX, 0},
    {OpKind::kTopK, "top_k", kX | kCount, 0},
};

const OpRow* FindRow(OpKind kind) {
  for (const OpRow& row : kOpTable) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

std::string TextOf(ValueNumber value) {
  return value == kNoValue ? std::string() : absl::StrCat(value);
}

std::string BitsOf(float value) {
  return absl::StrCat(absl::Hex(FloatBits(value), absl::kZeroPad8));
}

}  // namespace

std::vector<OpField> FieldsOf(const ProgramOp& op) {
  const OpRow* row = FindRow(op.kind);
  CHECK(row != nullptr) << "op kind " << static_cast<int>(op.kind);
  const auto use = [row](FieldBit bit) {
    if ((row->required & bit) != 0) return FieldUse::kRequired;
    if ((row->optional & bit) != 0) return FieldUse::kOptional;
    return FieldUse::kUnused;
  };
  return {
      {"x", TextOf(op.x), use(kX)},
      {"y", TextOf(op.y), use(kY)},
      {"weight", TextOf(op.norm_weight), use(kWeight)},
      {"bias", TextOf(op.norm_bias), use(kBias)},
      {"weights", op.weights, use(kWeights)},
      {"mode", std::string(Name(op.mode)), use(kMode)},
      {"rounding", std::string(Name(op.rounding)), use(kRounding)},
      {"activation", std::string(Name(op.activation)), use(kActivation)},
      {"low", BitsOf(op.low), use(kLow)},
      {"high", BitsOf(op.high), use(kHigh)},
      {"eps", BitsOf(op.eps), use(kEps)},
      {"group", absl::StrCat(op.group), use(kGroup)},
      {"begin", absl::StrCat(op.begin), use(kBegin)},
      {"width", absl::StrCat(op.width), use(kWidth)},
      {"k", absl::StrCat(op.top_k), use(kCount)},
  };
}

std::vector<OpOperand> OperandsOf(const ProgramOp& op) {
  std::vector<OpOperand> operands;
  for (const OpOperand& operand :
       {OpOperand{"x", op.x}, OpOperand{"y", op.y},
        OpOperand{"weight", op.norm_weight}, OpOperand{"bias", op.norm_bias}}) {
    if (operand.value != kNoValue) operands.push_back(operand);
  }
  return operands;
}

std::string LabelOf(const ProgramOp& op) {
  const absl::string_view kind =
      op.kind == OpKind::kAct ? Name(op.activation) : Name(op.kind);
  return absl::StrCat(kind, op.name.empty() ? "" : " ", op.name);
}

absl::string_view Name(OpKind kind) {
  const OpRow* row = FindRow(kind);
  return row == nullptr ? "?" : row->name;
}

bool IsColumnwise(OpKind kind) {
  switch (kind) {
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kAct:
    case OpKind::kClamp:
    case OpKind::kSlice:
    case OpKind::kConvert:
      return true;
    case OpKind::kGemm:
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
    case OpKind::kTopK:
      return false;
  }
  return false;
}

}  // namespace qgemm
