// SPDX-License-Identifier: Apache-2.0
//
// Requests and answers of Gemm and the listings; uploads are translated in
// translate_upload.cc.

#include "server/rpc/translate.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/translate_enums.h"

namespace qgemm {
namespace {

absl::StatusOr<ComputeMode> ToComputeMode(v1::ComputeMode mode) {
  switch (mode) {
    case v1::COMPUTE_MODE_UNSPECIFIED:
    case v1::COMPUTE_MODE_A16:
      return ComputeMode::kA16;
    case v1::COMPUTE_MODE_A8:
      return ComputeMode::kA8;
    case v1::COMPUTE_MODE_A32:
      return ComputeMode::kA32;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("mode = ", static_cast<int>(mode),
                       " is not a ComputeMode; A16, A8 and A32 are"));
  }
}

absl::StatusOr<FloatType> ToRounding(v1::FloatType rounding,
                                     const MatmulSignature& signature) {
  if (rounding == v1::FLOAT_TYPE_UNSPECIFIED) return FloatType::kBFloat16;
  ASSIGN_OR_RETURN(const FloatType type, ToFloatType("rounding", rounding));
  if (type == FloatType::kFloat32) {
    return absl::InvalidArgumentError(
        "rounding = fp32: only fp16 and bf16 are");
  }
  if (signature.mode != ComputeMode::kA16 ||
      signature.a_type != FloatType::kFloat32) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rounding = ", Name(type), " applies to fp32 activations in mode A16; ",
        "this request has ", Name(signature.a_type), " in mode ",
        Name(signature.mode)));
  }
  return type;
}

constexpr size_t kMaxClientIdBytes = 128;

uint64_t Nanoseconds(absl::Duration duration) {
  return std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration));
}

}  // namespace

absl::StatusOr<int64_t> CountFromWire(absl::string_view field, uint64_t value,
                                      int64_t limit) {
  if (value > static_cast<uint64_t>(limit)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " = ", value, " is beyond the limit of ", limit));
  }
  return static_cast<int64_t>(value);
}

absl::StatusOr<FloatType> ToFloatType(absl::string_view field,
                                      v1::FloatType type) {
  switch (type) {
    case v1::FLOAT_TYPE_FP32:
      return FloatType::kFloat32;
    case v1::FLOAT_TYPE_FP16:
      return FloatType::kFloat16;
    case v1::FLOAT_TYPE_BF16:
      return FloatType::kBFloat16;
    case v1::FLOAT_TYPE_UNSPECIFIED:
      return absl::InvalidArgumentError(absl::StrCat(
          field, " is not set; it must be FP32 (1), FP16 (2) or BF16 (3)"));
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(field, " = ", static_cast<int>(type),
                       " is not a FloatType; FP32, FP16 and BF16 are"));
  }
}

absl::StatusOr<MatmulSignature> ToSignature(const v1::GemmRequest& request) {
  MatmulSignature signature;
  ASSIGN_OR_RETURN(signature.a_type, ToFloatType("a_type", request.a_type()));
  signature.c_type = signature.a_type;
  if (request.c_type() != v1::FLOAT_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(signature.c_type, ToFloatType("c_type", request.c_type()));
  }
  ASSIGN_OR_RETURN(signature.mode, ToComputeMode(request.mode()));
  ASSIGN_OR_RETURN(signature.rounding,
                   ToRounding(request.rounding(), signature));
  return signature;
}

absl::StatusOr<Priority> ToPriority(v1::Priority priority) {
  switch (priority) {
    case v1::PRIORITY_LOW:
      return Priority::kLow;
    case v1::PRIORITY_UNSPECIFIED:
    case v1::PRIORITY_NORMAL:
      return Priority::kNormal;
    case v1::PRIORITY_HIGH:
      return Priority::kHigh;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("priority = ", static_cast<int>(priority),
                       " is not a Priority; LOW, NORMAL and HIGH are"));
  }
}

absl::Status CheckClientId(const std::string& client_id) {
  if (client_id.size() > kMaxClientIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("client_id has ", client_id.size(),
                     " characters; at most ", kMaxClientIdBytes, " are legal"));
  }
  for (const char c : client_id) {
    if (absl::ascii_isalnum(c) || absl::StrContains("._/-", c)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("client_id = \"", absl::CHexEscape(client_id),
                     "\"; legal are [A-Za-z0-9._/-]"));
  }
  return absl::OkStatus();
}

void ToMessage(const WeightsListing& listing, v1::WeightsInfo* info) {
  const StoredWeights& weights = *listing.weights;
  info->set_id(weights.id);
  for (const std::string& name : listing.names) info->add_names(name);
  info->set_n(weights.spec.n);
  info->set_k(weights.spec.k);
  info->set_format(ResidentFormatName(weights.spec));
  info->set_resident_bytes(weights.resident->resident_bytes());
  info->set_uploaded_bytes(weights.uploaded_bytes);
  info->set_has_bias(weights.spec.has_bias);
  info->set_spec(CanonicalText(weights.spec));
}

void ToMessage(const GemmTimings& timings, absl::Duration total,
               v1::Timings* message) {
  message->set_queue_ns(Nanoseconds(timings.queue));
  message->set_host_to_device_ns(Nanoseconds(timings.host_to_device));
  message->set_kernel_ns(Nanoseconds(timings.kernel));
  message->set_device_to_host_ns(Nanoseconds(timings.device_to_host));
  message->set_total_ns(Nanoseconds(total));
  message->set_launch_rows(timings.launch_rows);
  message->set_launch_requests(timings.launch_requests);
}

}  // namespace qgemm
