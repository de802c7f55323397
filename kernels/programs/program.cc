// SPDX-License-Identifier: Apache-2.0
//
// Names and types; those of ops are in op_fields.cc.

#include "kernels/programs/program.h"

#include "base/check.h"

namespace qgemm {

FloatType FloatTypeOf(NumberType type) {
  switch (type) {
    case NumberType::kFloat32:
      return FloatType::kFloat32;
    case NumberType::kFloat16:
      return FloatType::kFloat16;
    case NumberType::kBFloat16:
      return FloatType::kBFloat16;
    case NumberType::kInt32:
      break;
  }
  LOG(FATAL) << Name(type) << " is no float";
  return FloatType::kFloat32;
}

absl::string_view Name(NumberType type) {
  switch (type) {
    case NumberType::kFloat32:
      return "fp32";
    case NumberType::kFloat16:
      return "fp16";
    case NumberType::kBFloat16:
      return "bf16";
    case NumberType::kInt32:
      return "int32";
  }
  return "?";
}

absl::string_view Name(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kSigmoid:
      return "sigmoid";
    case Activation::kGeluErf:
      return "gelu_erf";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kRelu:
      return "relu";
    case Activation::kTanh:
      return "tanh";
  }
  return "?";
}

}  // namespace qgemm
