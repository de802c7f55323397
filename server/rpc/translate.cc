// SPDX-License-Identifier: Apache-2.0
//
// Requests and answers of Gemm and GemmStream, and the listings; uploads are
// in translate_upload.cc.

#include "server/rpc/translate.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rpc/message_limits.h"

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
                       " is not a ComputeMode; it must be A16 (1), A8 (2) or "
                       "A32 (3)"));
  }
}

absl::StatusOr<FloatType> ToRounding(v1::FloatType rounding,
                                     const MatmulSignature& signature) {
  if (rounding == v1::FLOAT_TYPE_UNSPECIFIED) return FloatType::kBFloat16;
  ASSIGN_OR_RETURN(const FloatType type, ToFloatType("rounding", rounding));
  if (type == FloatType::kFloat32) {
    return absl::InvalidArgumentError(
        "rounding = fp32; it must be FP16 (2) or BF16 (3)");
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
constexpr absl::Duration kRetryDelay = absl::Milliseconds(50);

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
                       " is not a FloatType; it must be FP32 (1), FP16 (2) or "
                       "BF16 (3)"));
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
                       " is not a Priority; it must be LOW (1), NORMAL (2) or "
                       "HIGH (3)"));
  }
}

absl::Status CheckClientId(const std::string& client_id) {
  if (client_id.size() > kMaxClientIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("client_id has ", client_id.size(),
                     " characters; it may have at most ", kMaxClientIdBytes));
  }
  for (const char c : client_id) {
    if (absl::ascii_isalnum(c) || absl::StrContains("._/-", c)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("client_id = \"", absl::CHexEscape(client_id),
                     "\"; it may have the characters A-Za-z0-9._/- only"));
  }
  return absl::OkStatus();
}

uint64_t OperandBytes(const v1::GemmStreamOpen& open, int64_t received_bytes) {
  return open.a_bytes() == 0 ? static_cast<uint64_t>(received_bytes)
                             : open.a_bytes();
}

absl::Status CheckStreamOpen(const v1::GemmStreamOpen& open,
                             int64_t received_bytes,
                             int64_t max_operand_bytes) {
  const uint64_t a_bytes = OperandBytes(open, received_bytes);
  if (open.work_case() == v1::GemmStreamOpen::WORK_NOT_SET) {
    return absl::InvalidArgumentError(
        "neither open.gemm nor open.run is set; they name the weights or the "
        "program, and the shape");
  }
  if (!open.gemm().a().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("open.gemm.a has ", open.gemm().a().size(),
                     " bytes; in a stream A is the field a beside open"));
  }
  if (!open.run().inputs().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("open.run.inputs has ", open.run().inputs().size(),
                     " bytes; in a stream they are the field a beside open"));
  }
  if (static_cast<uint64_t>(received_bytes) > a_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a has ", received_bytes, " bytes, more than a_bytes = ", a_bytes));
  }
  if (a_bytes > static_cast<uint64_t>(max_operand_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a_bytes = ", a_bytes, " is beyond the limit of ", max_operand_bytes,
        " (--max_stream_operand_bytes); split the rows over several requests"));
  }
  if (open.c_fragment_bytes() != 0 &&
      open.c_fragment_bytes() < static_cast<uint64_t>(kMinFragmentBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("c_fragment_bytes = ", open.c_fragment_bytes(),
                     "; it must be 0 or at least ", kMinFragmentBytes));
  }
  return absl::OkStatus();
}

absl::Time DeadlineAfter(absl::Time arrival, uint64_t timeout_ns) {
  if (timeout_ns == 0) return absl::InfiniteFuture();
  return arrival + absl::Nanoseconds(static_cast<int64_t>(std::min<uint64_t>(
                       timeout_ns, std::numeric_limits<int64_t>::max())));
}

absl::Duration RetryDelayFor(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? kRetryDelay : absl::ZeroDuration();
}

void ToMessage(const NamedWeights& listing, v1::WeightsInfo* info) {
  const Weights& weights = *listing.record;
  info->set_id(weights.id);
  for (const std::string& name : listing.names) info->add_names(name);
  info->set_name_count(listing.name_count);
  info->set_n(weights.spec.n);
  info->set_k(weights.spec.k);
  info->set_format(ResidentFormatName(weights.spec));
  info->set_resident_bytes(
      weights.resident == nullptr ? 0 : weights.resident->resident_bytes());
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
  for (const absl::Duration op : timings.ops) {
    message->add_op_ns(Nanoseconds(op));
  }
}

}  // namespace qgemm
