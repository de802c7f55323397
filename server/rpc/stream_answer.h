// SPDX-License-Identifier: Apache-2.0
//
// One answer of a stream as the messages that it takes.

#ifndef QGEMM_SERVER_RPC_STREAM_ANSWER_H_
#define QGEMM_SERVER_RPC_STREAM_ANSWER_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

// Bytes of C in one message of an answer: `asked`, or a default that every
// gRPC client receives if that is 0, but at most `max_bytes`.
int64_t AnswerFragmentBytes(uint64_t asked, int64_t max_bytes);

// A result that is to be sent.
struct StreamResult {
  GemmTimings timings;
  absl::Duration total;  // from the request's first message until now
  absl::Span<const uint8_t> c;
  std::shared_ptr<void> c_owner;  // keeps c, and lives until c is sent
  int64_t fragment_bytes = 0;     // of c in one message, 1 or more
};

// Not thread-safe.
class StreamAnswer {
 public:
  // An error that a retry may overcome if `retry_delay` is above zero.
  StreamAnswer(uint64_t id, absl::Status status, absl::Duration retry_delay);
  StreamAnswer(uint64_t id, StreamResult result);

  uint64_t id() const { return id_; }

  // The next message, while not done. Its part of c is sent from where it is.
  grpc::ByteBuffer NextMessage();
  bool done() const { return done_; }
  // Bytes of all of C; 0 for an error.
  int64_t c_bytes() const { return static_cast<int64_t>(result_.c.size()); }

 private:
  grpc::ByteBuffer ErrorMessage() const;

  uint64_t id_;
  absl::Status status_;
  absl::Duration retry_delay_;
  StreamResult result_;
  int64_t offset_bytes_ = 0;
  bool done_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_STREAM_ANSWER_H_
