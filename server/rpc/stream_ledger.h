// SPDX-License-Identifier: Apache-2.0
//
// Requests of one stream that are outstanding: their ids, how far their
// operands have come, and what they count against the stream's bounds.
// Decisions only: messages, memory and threads are in gemm_stream_call.h.

#ifndef QGEMM_SERVER_RPC_STREAM_LEDGER_H_
#define QGEMM_SERVER_RPC_STREAM_LEDGER_H_

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "absl/status/status.h"

namespace qgemm {

struct StreamLimits {
  // Requests that have come whole and are not answered, and the bytes of their
  // A and C: beyond either, the stream is not read, and gRPC's flow control
  // holds its client back.
  int64_t max_requests = 256;
  int64_t max_bytes = int64_t{256} << 20;
  // Bound of one request's A, and of its C.
  int64_t max_operand_bytes = int64_t{1} << 30;
};

// Operands of one stream that may have come in part.
inline constexpr int64_t kMaxPartialOperands = 8;

// Outcome of a request's first message.
struct StreamVerdict {
  enum class Kind : uint8_t {
    kTaken,    // it begins a request
    kRefused,  // it is to be answered with the status, and is no request
    kBroken,   // the stream is to end with the status
  };
  Kind kind = Kind::kTaken;
  absl::Status status;
};

// A request is outstanding from Begin until it is both complete and answered: a
// client that has its answer may use its id again. Not thread-safe.
class StreamLedger {
 public:
  explicit StreamLedger(const StreamLimits& limits) : limits_(limits) {}

  // Begins a request by its first message: A has `a_bytes`, of which
  // `fragment_bytes` came with it. Refused if the id is outstanding; broken if
  // moreover fragments would follow, which could not be told from the other
  // request's, and if too many operands have come in part.
  StreamVerdict Begin(uint64_t id, uint64_t a_bytes, uint64_t fragment_bytes);

  // Adds a further fragment. INVALID_ARGUMENT, and the stream is broken, unless
  // it is the next one of an operand that has come in part.
  absl::Status Continue(uint64_t id, uint64_t offset, uint64_t fragment_bytes);

  // Says that no fragments follow. Does nothing for an id that is not
  // outstanding.
  void EndFragments(uint64_t id);

  // Sets the bytes that an outstanding request holds, A and C together.
  void Hold(uint64_t id, int64_t bytes);

  // Says that the last message of the request's answer goes out. Until Sent,
  // the request still counts against the bounds. Does nothing for an id that
  // is not outstanding.
  void Answer(uint64_t id);
  // Says that this message has gone out. Does nothing if there is none.
  void Sent();

  // True if the A of an outstanding request has come whole.
  bool IsComplete(uint64_t id) const { return requests_.at(id).complete(); }

  // True if the next message may be read. A request that has come in part never
  // stands in the way: its rest would otherwise never be read.
  bool HasRoom() const {
    return waiting_ < limits_.max_requests && held_bytes_ < limits_.max_bytes;
  }
  // Requests without an answer.
  int64_t unanswered() const { return unanswered_; }
  // Operands that have not come whole, of requests answered or not.
  int64_t partial() const { return partial_; }
  // Bytes of A that have come of an outstanding request, and all of them.
  uint64_t received_bytes(uint64_t id) const {
    return requests_.at(id).received_bytes;
  }
  uint64_t a_bytes(uint64_t id) const { return requests_.at(id).a_bytes; }

 private:
  struct Request {
    uint64_t a_bytes = 0;
    uint64_t received_bytes = 0;
    int64_t held_bytes = 0;
    bool answered = false;

    bool complete() const { return received_bytes >= a_bytes; }
    bool waits() const { return complete() && !answered; }
  };
  using Requests = std::unordered_map<uint64_t, Request>;

  // Applies `change` to a request, and its effect to the counts.
  template <typename Change>
  void Update(Requests::iterator request, Change change);

  const StreamLimits limits_;
  Requests requests_;
  int64_t unanswered_ = 0;
  int64_t waiting_ = 0;     // complete and unanswered, or being sent
  int64_t partial_ = 0;     // not complete, answered or not
  int64_t held_bytes_ = 0;  // of those that wait
  // The share of held_bytes_ of the request whose last message goes out.
  std::optional<int64_t> sending_bytes_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_STREAM_LEDGER_H_
