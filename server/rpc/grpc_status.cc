// SPDX-License-Identifier: Apache-2.0
//
// Codes are equal by number. The details are a google.rpc.Status, encoded
// here because the distribution has no C++ classes for google.rpc:
//   Status    { int32 code = 1; string message = 2; repeated Any details = 3; }
//   RetryInfo { google.protobuf.Duration retry_delay = 1; }

#include "server/rpc/grpc_status.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>

namespace qgemm {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedOutputStream;
using ::google::protobuf::io::StringOutputStream;

// What a caller that met a full queue is told to wait: a few launches.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(50);

std::string EncodeRetryInfo(absl::Duration retry_delay) {
  google::protobuf::Duration delay;
  absl::Duration rest;
  delay.set_seconds(absl::IDivDuration(retry_delay, absl::Seconds(1), &rest));
  delay.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  std::string bytes;
  StringOutputStream output(&bytes);
  CodedOutputStream stream(&output);
  WireFormatLite::WriteBytes(1, delay.SerializeAsString(), &stream);
  stream.Trim();
  return bytes;
}

std::string EncodeDetails(const absl::Status& status,
                          absl::Duration retry_delay) {
  google::protobuf::Any detail;
  detail.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  detail.set_value(EncodeRetryInfo(retry_delay));
  std::string bytes;
  StringOutputStream output(&bytes);
  CodedOutputStream stream(&output);
  WireFormatLite::WriteInt32(1, static_cast<int>(status.code()), &stream);
  WireFormatLite::WriteBytes(2, std::string(status.message()), &stream);
  WireFormatLite::WriteBytes(3, detail.SerializeAsString(), &stream);
  stream.Trim();
  return bytes;
}

grpc::StatusCode ToGrpcCode(absl::StatusCode code) {
  return static_cast<grpc::StatusCode>(static_cast<int>(code));
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(ToGrpcCode(status.code()), std::string(status.message()));
}

grpc::Status ToRetryableGrpcStatus(const absl::Status& status,
                                   absl::Duration retry_delay) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(ToGrpcCode(status.code()), std::string(status.message()),
                      EncodeDetails(status, retry_delay));
}

absl::Duration RetryDelayFor(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? kRetryDelay : absl::ZeroDuration();
}

grpc::Status ToRetryableIfExhausted(const absl::Status& status) {
  const absl::Duration delay = RetryDelayFor(status);
  return delay > absl::ZeroDuration() ? ToRetryableGrpcStatus(status, delay)
                                      : ToGrpcStatus(status);
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace qgemm
