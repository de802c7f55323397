// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/stream_answer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "qgemm/v1/qgemm.pb.h"
#include "rpc/message_limits.h"
#include "rpc/payload_message.h"
#include "server/rpc/translate.h"

namespace qgemm {

int64_t AnswerFragmentBytes(uint64_t asked, int64_t max_bytes) {
  if (asked == 0) asked = kDefaultFragmentBytes;
  return static_cast<int64_t>(
      std::min(asked, static_cast<uint64_t>(max_bytes)));
}

StreamAnswer::StreamAnswer(uint64_t id, absl::Status status,
                           absl::Duration retry_delay)
    : id_(id), status_(std::move(status)), retry_delay_(retry_delay) {}

StreamAnswer::StreamAnswer(uint64_t id, StreamResult result)
    : id_(id), result_(std::move(result)) {}

grpc::ByteBuffer StreamAnswer::NextMessage() {
  if (!status_.ok()) {
    done_ = true;
    return ErrorMessage();
  }
  v1::GemmStreamResponse header;
  header.set_request_id(id_);
  if (offset_bytes_ == 0) {
    ToMessage(result_.timings, result_.total, header.mutable_timings());
    header.set_c_bytes(result_.c.size());
  }
  header.set_offset(offset_bytes_);
  const absl::Span<const uint8_t> fragment =
      result_.c.subspan(offset_bytes_, result_.fragment_bytes);
  offset_bytes_ += static_cast<int64_t>(fragment.size());
  done_ = offset_bytes_ == static_cast<int64_t>(result_.c.size());
  return WritePayloadMessage(
      header, fragment,
      [owner = done_ ? std::move(result_.c_owner) : result_.c_owner]() mutable {
        owner.reset();
      });
}

grpc::ByteBuffer StreamAnswer::ErrorMessage() const {
  v1::GemmStreamResponse message;
  message.set_request_id(id_);
  v1::GemmStreamError* const error = message.mutable_error();
  error->set_code(static_cast<uint32_t>(status_.code()));
  error->set_message(std::string(status_.message()));
  error->set_retry_delay_ns(absl::ToInt64Nanoseconds(retry_delay_));
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace qgemm
