// SPDX-License-Identifier: Apache-2.0
//
// The rules, in the order of the op table. Every message names the value, its
// width or type, and what it must be.

#include "kernels/programs/op_rules.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/programs/op_fields.h"

namespace qgemm {
namespace {

template <typename... Parts>
absl::Status Refused(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

const ProgramValue& X(const OpContext& context) {
  return context.values[context.op.x];
}

// "value 5 has width 128".
std::string WidthOf(const OpContext& context, ValueNumber value) {
  return absl::StrCat("value ", value, " has width ",
                      context.values[value].width);
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t least,
                        int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Refused(field, " = ", value, ": must be ", least, " to ", most);
}

// INVALID_ARGUMENT unless the value, if the op has it, is as wide as one of
// two.
absl::Status CheckWidth(const OpContext& context, ValueNumber value,
                        int64_t width, int64_t or_width) {
  if (value == kNoValue) return absl::OkStatus();
  const int64_t actual = context.values[value].width;
  if (actual == width || actual == or_width) return absl::OkStatus();
  return Refused(WidthOf(context, value), "; must be ", width,
                 width == or_width ? "" : absl::StrCat(" or ", or_width));
}

absl::Status CheckMode(const OpContext& context) {
  const WeightsShape& shape = context.weights->shape;
  const ComputeMode mode = context.op.mode;
  if (mode == ComputeMode::kA8 && !shape.supports_a8) {
    return absl::UnimplementedError(
        absl::StrCat("mode A8 is defined for Q4_0 weights; weights ",
                     context.op.weights, " offer A16"));
  }
  if (mode == ComputeMode::kA32 && !shape.integer_codes) {
    return absl::UnimplementedError(
        absl::StrCat("mode A32 needs weights whose codes are integers; "
                     "weights ",
                     context.op.weights, " offer A16"));
  }
  return absl::OkStatus();
}

absl::Status CheckRounding(const OpContext& context) {
  const ProgramOp& op = context.op;
  if (op.rounding == FloatType::kFloat32) {
    return Refused("rounding = fp32: must be bf16 or fp16");
  }
  const NumberType type = X(context).type;
  const bool rounds =
      op.mode == ComputeMode::kA16 && type == NumberType::kFloat32;
  if (rounds || op.rounding == ProgramOp().rounding) return absl::OkStatus();
  return Refused("rounding = ", Name(op.rounding), ": value ", op.x, " is ",
                 Name(type), " in mode ", Name(op.mode),
                 "; only fp32 in mode A16 is rounded");
}

absl::StatusOr<int64_t> GemmWidth(const OpContext& context) {
  const WeightsShape& shape = context.weights->shape;
  if (X(context).width != shape.k) {
    return Refused(WidthOf(context, context.op.x), "; weights ",
                   context.op.weights, " has k = ", shape.k);
  }
  RETURN_IF_ERROR(CheckMode(context));
  RETURN_IF_ERROR(CheckRounding(context));
  return shape.n;
}

absl::StatusOr<int64_t> ElementwiseWidth(const OpContext& context) {
  const int64_t width = X(context).width;
  RETURN_IF_ERROR(CheckWidth(context, context.op.y, width, 1));
  return width;
}

absl::StatusOr<int64_t> ClampWidth(const OpContext& context) {
  const ProgramOp& op = context.op;
  if (op.low <= op.high) return X(context).width;  // false for a NaN
  return Refused("low = ", op.low, ", high = ", op.high,
                 ": low must be a number up to high");
}

absl::Status CheckEps(float eps) {
  if (eps >= 0 && std::isfinite(eps)) return absl::OkStatus();
  return Refused("eps = ", eps, ": must be finite and 0 or more");
}

absl::StatusOr<int64_t> RmsNormWidth(const OpContext& context) {
  const ProgramOp& op = context.op;
  const int64_t width = X(context).width;
  RETURN_IF_ERROR(CheckEps(op.eps));
  RETURN_IF_ERROR(CheckRange("group", op.group, 0, width));
  const int64_t group = op.group == 0 ? width : op.group;
  if (width % group != 0) {
    return Refused(WidthOf(context, op.x), "; group = ", group,
                   " does not divide it");
  }
  RETURN_IF_ERROR(CheckWidth(context, op.norm_weight, width, group));
  return width;
}

absl::StatusOr<int64_t> LayerNormWidth(const OpContext& context) {
  const int64_t width = X(context).width;
  RETURN_IF_ERROR(CheckEps(context.op.eps));
  RETURN_IF_ERROR(CheckWidth(context, context.op.norm_weight, width, width));
  RETURN_IF_ERROR(CheckWidth(context, context.op.norm_bias, width, width));
  return width;
}

absl::StatusOr<int64_t> SliceWidth(const OpContext& context) {
  const ProgramOp& op = context.op;
  const int64_t width = X(context).width;
  if (op.begin >= 0 && op.width >= 1 && op.width <= width &&
      op.begin <= width - op.width) {
    return op.width;
  }
  return Refused("begin = ", op.begin, ", width = ", op.width, ": ",
                 WidthOf(context, op.x));
}

absl::StatusOr<int64_t> TopKWidth(const OpContext& context) {
  const ProgramOp& op = context.op;
  if (op.type != NumberType::kFloat32) {
    return Refused("type = ", Name(op.type), ": the values of top_k are fp32");
  }
  if (op.top_k > X(context).width) {
    return Refused("k = ", op.top_k, ": ", WidthOf(context, op.x));
  }
  RETURN_IF_ERROR(CheckRange("k", op.top_k, 1, context.limits.max_top_k));
  return op.top_k;
}

absl::Status CheckOperand(const OpContext& context, const OpOperand& operand) {
  const int64_t count = static_cast<int64_t>(context.values.size());
  if (operand.value < 0 || operand.value >= count) {
    return Refused(operand.name, " = ", operand.value,
                   ": the values before this op are 0 to ", count - 1);
  }
  const ProgramValue& value = context.values[operand.value];
  if (!IsFloat(value.type)) {
    return Refused("value ", operand.value, " has type ", Name(value.type),
                   "; ops compute with fp32, fp16 and bf16");
  }
  const bool constant = value.origin == ProgramValue::Origin::kConstant;
  if (operand.name == "x" && constant) {
    return Refused("x is value ", operand.value,
                   ", a constant; must be an input or a result");
  }
  if ((operand.name == "weight" || operand.name == "bias") && !constant) {
    return Refused(operand.name, " is value ", operand.value,
                   "; must be a constant");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFields(const ProgramOp& op) {
  if (Name(op.kind) == "?") {
    return Refused("kind ", static_cast<int>(op.kind), " is unknown");
  }
  if (!IsFloat(op.type)) {
    return Refused("type = ", Name(op.type), ": must be fp32, fp16 or bf16");
  }
  const std::vector<OpField> unset = FieldsOf(ProgramOp());
  const std::vector<OpField> fields = FieldsOf(op);
  for (size_t i = 0; i < fields.size(); ++i) {
    const OpField& field = fields[i];
    if (field.use == FieldUse::kUnused && field.text != unset[i].text) {
      return Refused(Name(op.kind), " has no ", field.name,
                     "; it must not be set");
    }
    if (field.use == FieldUse::kRequired && field.text.empty()) {
      return Refused(field.name, " is not set");
    }
    if (field.text == "?") return Refused(field.name, " is unknown");
  }
  return absl::OkStatus();
}

absl::Status CheckOperands(const OpContext& context) {
  for (const OpOperand& operand : OperandsOf(context.op)) {
    RETURN_IF_ERROR(CheckOperand(context, operand));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ResultWidth(const OpContext& context) {
  switch (context.op.kind) {
    case OpKind::kGemm:
      return GemmWidth(context);
    case OpKind::kAdd:
    case OpKind::kMul:
      return ElementwiseWidth(context);
    case OpKind::kClamp:
      return ClampWidth(context);
    case OpKind::kRmsNorm:
      return RmsNormWidth(context);
    case OpKind::kLayerNorm:
      return LayerNormWidth(context);
    case OpKind::kSlice:
      return SliceWidth(context);
    case OpKind::kTopK:
      return TopKWidth(context);
    case OpKind::kAct:
    case OpKind::kConvert:
      return X(context).width;
  }
  return Refused("kind ", static_cast<int>(context.op.kind), " is unknown");
}

}  // namespace qgemm
