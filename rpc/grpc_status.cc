// SPDX-License-Identifier: Apache-2.0
//
// Codes are equal by number. The details are a google.rpc.Status, built from
// fields because the distribution has no C++ classes for google.rpc, and
// classes of our own would collide with those of a program that has them:
//   Status    { int32 code = 1; string message = 2; repeated Any details = 3; }
//   RetryInfo { google.protobuf.Duration retry_delay = 1; }

#include "rpc/grpc_status.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <utility>

#include "absl/strings/cord.h"

namespace qgemm {
namespace {

using ::google::protobuf::Any;
using ::google::protobuf::UnknownField;
using ::google::protobuf::UnknownFieldSet;

constexpr char kRetryInfoType[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr int kStatusCode = 1;
constexpr int kStatusMessage = 2;
constexpr int kStatusDetails = 3;
constexpr int kRetryDelay = 1;

std::string Serialize(const UnknownFieldSet& fields) {
  std::string bytes;
  fields.SerializeToString(&bytes);
  return bytes;
}

std::string EncodeRetryInfo(absl::Duration retry_delay) {
  google::protobuf::Duration delay;
  absl::Duration rest;
  delay.set_seconds(absl::IDivDuration(retry_delay, absl::Seconds(1), &rest));
  delay.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  UnknownFieldSet retry_info;
  retry_info.AddLengthDelimited(kRetryDelay, delay.SerializeAsString());
  return Serialize(retry_info);
}

std::string EncodeDetails(const absl::Status& status,
                          absl::Duration retry_delay) {
  Any detail;
  detail.set_type_url(kRetryInfoType);
  detail.set_value(EncodeRetryInfo(retry_delay));
  UnknownFieldSet fields;
  fields.AddVarint(kStatusCode, static_cast<uint64_t>(status.code()));
  fields.AddLengthDelimited(kStatusMessage, std::string(status.message()));
  fields.AddLengthDelimited(kStatusDetails, detail.SerializeAsString());
  return Serialize(fields);
}

// Runs `visit` with the bytes of each field of that number in a message.
template <typename Visit>
void ForEachBytes(const std::string& message, int number, Visit visit) {
  UnknownFieldSet fields;
  if (!fields.ParseFromString(message)) return;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == number &&
        field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      visit(field.length_delimited());
    }
  }
}

// Reads a serialized google.protobuf.Duration.
std::optional<absl::Duration> ParseDelay(const std::string& bytes) {
  google::protobuf::Duration delay;
  if (!delay.ParseFromString(bytes)) return std::nullopt;
  const absl::Duration sum =
      absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
  if (sum < absl::ZeroDuration()) return std::nullopt;
  return sum;
}

std::optional<absl::Duration> ParseRetryInfo(const std::string& bytes) {
  std::optional<absl::Duration> delay;
  ForEachBytes(bytes, kRetryDelay, [&](const std::string& retry_delay) {
    delay = ParseDelay(retry_delay);
  });
  return delay;
}

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryInfoType, absl::Cord(EncodeRetryInfo(delay)));
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryInfoType);
  if (!payload.has_value()) return std::nullopt;
  return ParseRetryInfo(std::string(*payload));
}

grpc::Status ToGrpcStatus(const absl::Status& status,
                          absl::Duration retry_delay) {
  if (status.ok()) return grpc::Status::OK;
  if (retry_delay <= absl::ZeroDuration()) {
    retry_delay = RetryDelayOf(status).value_or(absl::ZeroDuration());
  }
  const auto code = static_cast<grpc::StatusCode>(status.code());
  std::string message(status.message());
  if (retry_delay <= absl::ZeroDuration()) return {code, message};
  return {code, message, EncodeDetails(status, retry_delay)};
}

std::optional<absl::Duration> RetryDelayOf(const grpc::Status& status) {
  std::optional<absl::Duration> delay;
  ForEachBytes(status.error_details(), kStatusDetails,
               [&](const std::string& bytes) {
                 Any detail;
                 if (detail.ParseFromString(bytes) &&
                     detail.type_url() == kRetryInfoType) {
                   delay = ParseRetryInfo(detail.value());
                 }
               });
  return delay;
}

absl::Status ToAbslStatus(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    return absl::UnavailableError(
        "the server reset the call while it shut down");
  }
  absl::Status same(static_cast<absl::StatusCode>(status.error_code()),
                    status.error_message());
  const std::optional<absl::Duration> delay = RetryDelayOf(status);
  return delay.has_value() ? WithRetryDelay(std::move(same), *delay) : same;
}

absl::Status LostAnswer(bool cancelled, bool deadline_passed) {
  if (cancelled) {
    return absl::CancelledError("the call was cancelled as its answer came");
  }
  if (deadline_passed) {
    return absl::DeadlineExceededError(
        "the call's deadline passed as its answer came");
  }
  return absl::InternalError("the server's answer has no message");
}

void SetContextDeadline(absl::Time deadline, grpc::ClientContext* context) {
  if (deadline == absl::InfiniteFuture()) return;
  context->set_deadline(absl::ToChronoTime(deadline));
}

absl::Time DeadlineOf(const grpc::ServerContext& context, absl::Time now) {
  return DeadlineOf(context.raw_deadline(), now);
}

absl::Time DeadlineOf(gpr_timespec raw_deadline, absl::Time now) {
  const gpr_timespec deadline =
      gpr_convert_clock_type(raw_deadline, GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) >= 0) {
    return absl::InfiniteFuture();
  }
  const gpr_timespec left =
      gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
  return now + absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace qgemm
