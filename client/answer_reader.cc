// SPDX-License-Identifier: Apache-2.0

#include "client/answer_reader.h"

#include <utility>

#include "base/status_macros.h"
#include "client/wire.h"
#include "rpc/payload_message.h"

namespace qgemm {

absl::Status ReadAnswer(grpc::ByteBuffer* buffer, AnswerView* answer) {
  answer->message.Clear();
  ReceivedPayload payload;
  payload.pieces.swap(answer->c);
  const absl::Status read =
      ReadPayloadMessage(buffer, &answer->message, &payload);
  payload.pieces.swap(answer->c);
  if (!read.ok()) {
    answer->c.clear();
    answer->timings = ServerTimings();
    return absl::InternalError("the server's answer does not parse");
  }
  answer->timings = FromWire(answer->message.timings());
  return absl::OkStatus();
}

absl::StatusOr<GemmResult> ReadResult(grpc::ByteBuffer* buffer, int64_t m,
                                      FloatType c_type) {
  AnswerView answer;
  RETURN_IF_ERROR(ReadAnswer(buffer, &answer));
  int64_t c_bytes = 0;
  for (absl::string_view piece : answer.c) c_bytes += piece.size();
  ASSIGN_OR_RETURN(GemmResult result, ResultOfSize(c_bytes, m, c_type));
  result.c.reserve(c_bytes);
  for (absl::string_view piece : answer.c) {
    result.c.append(piece.data(), piece.size());
  }
  result.timings = answer.timings;
  return result;
}

}  // namespace qgemm
