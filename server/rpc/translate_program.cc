// SPDX-License-Identifier: Apache-2.0
//
// Unknown fields first, then inputs, constants and ops in order.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/programs/checked_program.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;
using ::google::protobuf::UnknownFieldSet;

template <typename... Parts>
absl::Status Refused(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// UNIMPLEMENTED if the message, or one inside it, has a field that its type
// lacks. `path` names the message. As deep as the types are, not the data.
absl::Status RefuseUnknownFields(const Message& message,
                                 const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  const UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        path, ": field ", unknown.field(0).number(),
        " is unknown; this server knows revision ", kProgramRevision));
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      RETURN_IF_ERROR(
          RefuseUnknownFields(reflection.GetMessage(message, field),
                              absl::StrCat(path, ".", field->name())));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      RETURN_IF_ERROR(RefuseUnknownFields(
          reflection.GetRepeatedMessage(message, field, i),
          absl::StrCat(path, ".", field->name(), "[", i, "]")));
    }
  }
  return absl::OkStatus();
}

int64_t Count(uint64_t value) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(value, kMost));
}

absl::StatusOr<NumberType> ToNumberType(v1::NumberType type,
                                        v1::NumberType default_type) {
  if (type == v1::NUMBER_TYPE_UNSPECIFIED) type = default_type;
  switch (type) {
    case v1::NUMBER_TYPE_FP32:
      return NumberType::kFloat32;
    case v1::NUMBER_TYPE_FP16:
      return NumberType::kFloat16;
    case v1::NUMBER_TYPE_BF16:
      return NumberType::kBFloat16;
    case v1::NUMBER_TYPE_INT32:
      return NumberType::kInt32;
    case v1::NUMBER_TYPE_UNSPECIFIED:
      return Refused("type is not set, nor is the program's value_type");
    default:
      return Refused("type = ", static_cast<int>(type), " is not a NumberType");
  }
}

// Even one that no value stands in need of: later revisions may add types.
absl::Status CheckValueType(v1::NumberType type) {
  switch (type) {
    case v1::NUMBER_TYPE_UNSPECIFIED:
    case v1::NUMBER_TYPE_FP32:
    case v1::NUMBER_TYPE_FP16:
    case v1::NUMBER_TYPE_BF16:
      return absl::OkStatus();
    default:
      return Refused("program: value_type = ", static_cast<int>(type),
                     ": must be FP32 (1), FP16 (2), BF16 (3) or not set");
  }
}

absl::StatusOr<ComputeMode> ToMode(v1::Program::Gemm::Mode mode) {
  switch (mode) {
    case v1::Program::Gemm::MODE_UNSPECIFIED:
    case v1::Program::Gemm::MODE_A16:
      return ComputeMode::kA16;
    case v1::Program::Gemm::MODE_A8:
      return ComputeMode::kA8;
    case v1::Program::Gemm::MODE_A32:
      return ComputeMode::kA32;
    default:
      return Refused("mode = ", static_cast<int>(mode),
                     ": must be A16 (1), A8 (2) or A32 (3)");
  }
}

absl::StatusOr<FloatType> ToRounding(v1::NumberType rounding) {
  switch (rounding) {
    case v1::NUMBER_TYPE_FP16:
      return FloatType::kFloat16;
    case v1::NUMBER_TYPE_UNSPECIFIED:
    case v1::NUMBER_TYPE_BF16:
      return FloatType::kBFloat16;
    default:
      return Refused("rounding = ", static_cast<int>(rounding),
                     ": must be FP16 (2) or BF16 (3)");
  }
}

absl::StatusOr<Activation> ToActivation(v1::Program::Act::Kind kind) {
  switch (kind) {
    case v1::Program::Act::KIND_SILU:
      return Activation::kSilu;
    case v1::Program::Act::KIND_SIGMOID:
      return Activation::kSigmoid;
    case v1::Program::Act::KIND_GELU_ERF:
      return Activation::kGeluErf;
    case v1::Program::Act::KIND_GELU_TANH:
      return Activation::kGeluTanh;
    case v1::Program::Act::KIND_RELU:
      return Activation::kRelu;
    case v1::Program::Act::KIND_TANH:
      return Activation::kTanh;
    default:
      return Refused("act.kind = ", static_cast<int>(kind),
                     ": must be an activation, 1 to 6");
  }
}

absl::Status SetGemm(const v1::Program::Gemm& gemm, ProgramOp* op) {
  op->kind = OpKind::kGemm;
  op->x = gemm.x();
  op->weights = gemm.weights();
  ASSIGN_OR_RETURN(op->mode, ToMode(gemm.mode()));
  ASSIGN_OR_RETURN(op->rounding, ToRounding(gemm.rounding()));
  return absl::OkStatus();
}

void SetBinary(OpKind kind, const v1::Program::Binary& binary, ProgramOp* op) {
  op->kind = kind;
  op->x = binary.x();
  op->y = binary.y();
}

absl::Status SetAct(const v1::Program::Act& act, ProgramOp* op) {
  op->kind = OpKind::kAct;
  op->x = act.x();
  ASSIGN_OR_RETURN(op->activation, ToActivation(act.kind()));
  return absl::OkStatus();
}

void SetClamp(const v1::Program::Clamp& clamp, ProgramOp* op) {
  op->kind = OpKind::kClamp;
  op->x = clamp.x();
  op->low = clamp.low();
  op->high = clamp.high();
}

void SetRmsNorm(const v1::Program::RmsNorm& norm, ProgramOp* op) {
  op->kind = OpKind::kRmsNorm;
  op->x = norm.x();
  if (norm.has_weight()) op->norm_weight = norm.weight();
  op->eps = norm.eps();
  op->group = Count(norm.group());
}

void SetLayerNorm(const v1::Program::LayerNorm& norm, ProgramOp* op) {
  op->kind = OpKind::kLayerNorm;
  op->x = norm.x();
  if (norm.has_weight()) op->norm_weight = norm.weight();
  if (norm.has_bias()) op->norm_bias = norm.bias();
  op->eps = norm.eps();
}

void SetSlice(const v1::Program::Slice& slice, ProgramOp* op) {
  op->kind = OpKind::kSlice;
  op->x = slice.x();
  op->begin = Count(slice.begin());
  op->width = Count(slice.width());
}

void SetConvert(const v1::Program::Convert& convert, ProgramOp* op) {
  op->kind = OpKind::kConvert;
  op->x = convert.x();
}

void SetTopK(const v1::Program::TopK& top_k, ProgramOp* op) {
  op->kind = OpKind::kTopK;
  op->x = top_k.x();
  op->top_k = Count(top_k.k());
}

// All of an op but its name and type.
absl::Status SetKind(const v1::Program::Op& message, ProgramOp* op) {
  switch (message.kind_case()) {
    case v1::Program::Op::kGemm:
      return SetGemm(message.gemm(), op);
    case v1::Program::Op::kAdd:
      SetBinary(OpKind::kAdd, message.add(), op);
      return absl::OkStatus();
    case v1::Program::Op::kMul:
      SetBinary(OpKind::kMul, message.mul(), op);
      return absl::OkStatus();
    case v1::Program::Op::kAct:
      return SetAct(message.act(), op);
    case v1::Program::Op::kClamp:
      SetClamp(message.clamp(), op);
      return absl::OkStatus();
    case v1::Program::Op::kRmsNorm:
      SetRmsNorm(message.rms_norm(), op);
      return absl::OkStatus();
    case v1::Program::Op::kLayerNorm:
      SetLayerNorm(message.layer_norm(), op);
      return absl::OkStatus();
    case v1::Program::Op::kSlice:
      SetSlice(message.slice(), op);
      return absl::OkStatus();
    case v1::Program::Op::kConvert:
      SetConvert(message.convert(), op);
      return absl::OkStatus();
    case v1::Program::Op::kTopK:
      SetTopK(message.top_k(), op);
      return absl::OkStatus();
    case v1::Program::Op::KIND_NOT_SET:
      break;
  }
  return Refused("no kind is set");
}

absl::StatusOr<ProgramOp> ToOp(const v1::Program::Op& message,
                               v1::NumberType value_type) {
  ProgramOp op;
  op.name = message.name();
  RETURN_IF_ERROR(SetKind(message, &op));
  // TOP_K's types are fixed; whatever is set is for the check to judge.
  if (op.kind == OpKind::kTopK) value_type = v1::NUMBER_TYPE_FP32;
  ASSIGN_OR_RETURN(op.type, ToNumberType(message.type(), value_type));
  return op;
}

// The status with "op 3: " or the like before its message.
absl::Status At(absl::string_view place, int index,
                const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(place, " ", index, ": ", status.message()));
}

}  // namespace

absl::StatusOr<Program> ToProgram(const v1::Program& message) {
  // First: a later revision explains what else is unknown.
  RETURN_IF_ERROR(CheckRevision(message.revision()));
  RETURN_IF_ERROR(RefuseUnknownFields(message, "program"));
  RETURN_IF_ERROR(CheckValueType(message.value_type()));
  Program program;
  program.revision = message.revision();
  for (int i = 0; i < message.inputs_size(); ++i) {
    const v1::Program::Input& input = message.inputs(i);
    const auto type = ToNumberType(input.type(), message.value_type());
    if (!type.ok()) return At("input", i, type.status());
    program.inputs.push_back({input.name(), *type, Count(input.width())});
  }
  for (int i = 0; i < message.constants_size(); ++i) {
    const v1::Program::Constant& constant = message.constants(i);
    const auto type = ToNumberType(constant.type(), message.value_type());
    if (!type.ok()) return At("constant", i, type.status());
    program.constants.push_back(
        {constant.name(),
         *type,
         {constant.values().begin(), constant.values().end()}});
  }
  for (int i = 0; i < message.ops_size(); ++i) {
    absl::StatusOr<ProgramOp> op = ToOp(message.ops(i), message.value_type());
    if (!op.ok()) return At("op", i, op.status());
    program.ops.push_back(*std::move(op));
  }
  program.outputs.assign(message.outputs().begin(), message.outputs().end());
  return program;
}

}  // namespace qgemm
