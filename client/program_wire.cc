// SPDX-License-Identifier: Apache-2.0
//
// A function fills the message of each kind of op.

#include "client/program_wire.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

v1::NumberType ToWire(NumberType type) {
  switch (type) {
    case NumberType::kFloat32:
      return v1::NUMBER_TYPE_FP32;
    case NumberType::kFloat16:
      return v1::NUMBER_TYPE_FP16;
    case NumberType::kBFloat16:
      return v1::NUMBER_TYPE_BF16;
    case NumberType::kInt32:
      return v1::NUMBER_TYPE_INT32;
  }
  return v1::NUMBER_TYPE_UNSPECIFIED;
}

v1::NumberType RoundingToWire(FloatType type) {
  switch (type) {
    case FloatType::kFloat32:
      return v1::NUMBER_TYPE_FP32;
    case FloatType::kFloat16:
      return v1::NUMBER_TYPE_FP16;
    case FloatType::kBFloat16:
      return v1::NUMBER_TYPE_UNSPECIFIED;  // the default
  }
  return v1::NUMBER_TYPE_FP32;  // refused
}

v1::Program::Gemm::Mode ToWire(ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kA16:
      return v1::Program::Gemm::MODE_A16;
    case ComputeMode::kA8:
      return v1::Program::Gemm::MODE_A8;
    case ComputeMode::kA32:
      return v1::Program::Gemm::MODE_A32;
  }
  return v1::Program::Gemm::MODE_UNSPECIFIED;
}

v1::Program::Act::Kind ToWire(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return v1::Program::Act::KIND_SILU;
    case Activation::kSigmoid:
      return v1::Program::Act::KIND_SIGMOID;
    case Activation::kGeluErf:
      return v1::Program::Act::KIND_GELU_ERF;
    case Activation::kGeluTanh:
      return v1::Program::Act::KIND_GELU_TANH;
    case Activation::kRelu:
      return v1::Program::Act::KIND_RELU;
    case Activation::kTanh:
      return v1::Program::Act::KIND_TANH;
  }
  return v1::Program::Act::KIND_UNSPECIFIED;
}

void FillGemm(const ProgramOp& op, v1::Program::Gemm* gemm) {
  gemm->set_x(op.x);
  gemm->set_weights(op.weights);
  gemm->set_mode(ToWire(op.mode));
  gemm->set_rounding(RoundingToWire(op.rounding));
}

void FillBinary(const ProgramOp& op, v1::Program::Binary* binary) {
  binary->set_x(op.x);
  binary->set_y(op.y);
}

void FillAct(const ProgramOp& op, v1::Program::Act* act) {
  act->set_x(op.x);
  act->set_kind(ToWire(op.activation));
}

void FillClamp(const ProgramOp& op, v1::Program::Clamp* clamp) {
  clamp->set_x(op.x);
  clamp->set_low(op.low);
  clamp->set_high(op.high);
}

void FillRmsNorm(const ProgramOp& op, v1::Program::RmsNorm* norm) {
  norm->set_x(op.x);
  if (op.norm_weight != kNoValue) norm->set_weight(op.norm_weight);
  norm->set_eps(op.eps);
  norm->set_group(op.group);
}

void FillLayerNorm(const ProgramOp& op, v1::Program::LayerNorm* norm) {
  norm->set_x(op.x);
  if (op.norm_weight != kNoValue) norm->set_weight(op.norm_weight);
  if (op.norm_bias != kNoValue) norm->set_bias(op.norm_bias);
  norm->set_eps(op.eps);
}

void FillSlice(const ProgramOp& op, v1::Program::Slice* slice) {
  slice->set_x(op.x);
  slice->set_begin(op.begin);
  slice->set_width(op.width);
}

void FillTopK(const ProgramOp& op, v1::Program::TopK* top_k) {
  top_k->set_x(op.x);
  top_k->set_k(op.top_k);
}

void FillOp(const ProgramOp& op, v1::Program::Op* message) {
  message->set_name(op.name);
  const bool type_is_fixed =
      op.kind == OpKind::kTopK && op.type == NumberType::kFloat32;
  if (!type_is_fixed) message->set_type(ToWire(op.type));
  switch (op.kind) {
    case OpKind::kGemm:
      return FillGemm(op, message->mutable_gemm());
    case OpKind::kAdd:
      return FillBinary(op, message->mutable_add());
    case OpKind::kMul:
      return FillBinary(op, message->mutable_mul());
    case OpKind::kAct:
      return FillAct(op, message->mutable_act());
    case OpKind::kClamp:
      return FillClamp(op, message->mutable_clamp());
    case OpKind::kRmsNorm:
      return FillRmsNorm(op, message->mutable_rms_norm());
    case OpKind::kLayerNorm:
      return FillLayerNorm(op, message->mutable_layer_norm());
    case OpKind::kSlice:
      return FillSlice(op, message->mutable_slice());
    case OpKind::kConvert:
      return message->mutable_convert()->set_x(op.x);
    case OpKind::kTopK:
      return FillTopK(op, message->mutable_top_k());
  }
}

absl::StatusOr<NumberType> FromWire(v1::NumberType type) {
  switch (type) {
    case v1::NUMBER_TYPE_FP32:
      return NumberType::kFloat32;
    case v1::NUMBER_TYPE_FP16:
      return NumberType::kFloat16;
    case v1::NUMBER_TYPE_BF16:
      return NumberType::kBFloat16;
    case v1::NUMBER_TYPE_INT32:
      return NumberType::kInt32;
    default:
      return absl::UnimplementedError(absl::StrCat(
          "the server's program has a value of type ", static_cast<int>(type),
          ", which this client does not know"));
  }
}

int64_t Count(uint64_t value) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(value, kMost));
}

absl::StatusOr<ProgramPort> FromWire(const v1::ProgramInfo::Value& value) {
  ProgramPort port;
  port.name = value.name();
  port.width = Count(value.width());
  ASSIGN_OR_RETURN(port.type, FromWire(value.type()));
  return port;
}

}  // namespace

v1::Program ToWire(const Program& program) {
  v1::Program message;
  message.set_revision(program.revision);
  for (const ProgramInput& input : program.inputs) {
    v1::Program::Input* const added = message.add_inputs();
    added->set_name(input.name);
    added->set_type(ToWire(input.type));
    added->set_width(input.width);
  }
  for (const ProgramConstant& constant : program.constants) {
    v1::Program::Constant* const added = message.add_constants();
    added->set_name(constant.name);
    added->set_type(ToWire(constant.type));
    added->set_values(constant.bytes.data(), constant.bytes.size());
  }
  for (const ProgramOp& op : program.ops) FillOp(op, message.add_ops());
  for (const ValueNumber output : program.outputs) message.add_outputs(output);
  return message;
}

absl::StatusOr<ProgramInfo> FromWire(const v1::ProgramInfo& info) {
  ProgramInfo program;
  program.id = info.id();
  program.names.assign(info.names().begin(), info.names().end());
  program.name_count = Count(info.name_count());
  for (const v1::ProgramInfo::Value& value : info.inputs()) {
    ASSIGN_OR_RETURN(ProgramPort port, FromWire(value));
    program.inputs.push_back(std::move(port));
  }
  for (const v1::ProgramInfo::Value& value : info.outputs()) {
    ASSIGN_OR_RETURN(ProgramPort port, FromWire(value));
    program.outputs.push_back(std::move(port));
  }
  program.input_row_bytes = Count(info.input_row_bytes());
  program.output_row_bytes = Count(info.output_row_bytes());
  program.ops = Count(info.ops());
  program.weights.assign(info.weights().begin(), info.weights().end());
  program.resident_bytes = Count(info.resident_bytes());
  program.text = info.text();
  return program;
}

}  // namespace qgemm
