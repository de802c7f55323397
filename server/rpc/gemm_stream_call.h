// SPDX-License-Identifier: Apache-2.0
//
// One GemmStream call: reads requests as long as there is room for them, and
// sends answers as they come, one message at a time each way.

#ifndef QGEMM_SERVER_RPC_GEMM_STREAM_CALL_H_
#define QGEMM_SERVER_RPC_GEMM_STREAM_CALL_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "rpc/completion_queue.h"
#include "rpc/payload_message.h"
#include "server/net/peer_table.h"
#include "server/rpc/gemm_request_builder.h"
#include "server/rpc/operands.h"
#include "server/rpc/server_call.h"
#include "server/rpc/stream_answer.h"
#include "server/rpc/stream_ledger.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

class GemmStreamHandler;

// Thread-safe; freed when gRPC's last operation and the last request have
// ended.
class GemmStreamCall : public ServerCall<GemmStreamCall, WhenDone::kNotified> {
 public:
  // Both must outlive the call.
  GemmStreamCall(GemmStreamHandler* handler, CompletionQueue* queue);

  // Requests that have not come whole, and those to come, are refused with
  // UNAVAILABLE; the call ends once the others are answered.
  void BeginDrain();

 private:
  friend class ServerCall<GemmStreamCall, WhenDone::kNotified>;

  using Cancelled = std::shared_ptr<std::atomic<bool>>;

  // A request from its checks to its launch.
  struct Arriving {
    GemmRequestBuilder builder;
    ClientCharge charge;
  };
  // A request that is neither refused nor computed.
  struct Live {
    absl::Time arrival;
    Cancelled cancelled = std::make_shared<std::atomic<bool>>(false);
    // Set while A lacks fragments; a Copy has it while one is copied.
    Arriving arriving;
    ProgressWatch watch;  // of A's bytes, by the sweep
  };
  // A message's part of A on its way to staging.
  struct Copy {
    uint64_t id = 0;
    uint64_t offset = 0;    // within A
    bool is_first = false;  // takes memory for the whole of A before
    int64_t bytes = 0;      // of memory to copy to or to take
    Arriving arriving;
  };
  struct QueuedAnswer {
    StreamAnswer answer;
    bool ends_request = true;  // false: it refuses a message of no request
  };

  // Parts that ServerCall calls.
  void Await(void* tag);
  void AcceptNext();
  void Begin();
  void Deny(const absl::Status& status) { End(status); }
  void End(const absl::Status& status);
  void OnDone();
  void OnSweep(const SweepRound& round);

  void OnRead(bool ok);
  void OnWritten(bool ok);

  void OnHalfClose();

  // Handle the message that was read, on the thread that read it, and return
  // the copy that is left to do, if any. An error ends the stream.
  absl::StatusOr<std::optional<Copy>> HandleMessage();
  absl::StatusOr<std::optional<Copy>> OpenRequest();
  absl::StatusOr<std::optional<Copy>> AddFragment();
  absl::Status CancelRequest();
  // Frees the message and reads on, or ends the stream with the error.
  void EndMessage(const absl::Status& handled);

  // Registers a request by its first message: the flag that cancels it, or
  // null if it was refused. An error ends the stream.
  absl::StatusOr<Cancelled> RegisterRequest(uint64_t id, uint64_t a_bytes,
                                            uint64_t fragment_bytes);
  // Checks a request by its first message; errors are the request's.
  absl::StatusOr<Arriving> ParseRequest(const v1::GemmStreamOpen& open);
  // Finds the scheduler and the client's share to have room for the operands.
  absl::Status Admit(Arriving* arriving);
  void SetCaller(Cancelled cancelled, Arriving* arriving);

  // Copies, here or on the copiers, and ends the message.
  void StartCopy(Copy copy);
  // The same on a copier; copies nothing for a request that was refused
  // meanwhile.
  void RunLongCopy(Copy copy);
  // Copies, and launches the request if its A is whole then.
  void RunCopy(Copy copy);
  bool IsLive(uint64_t id);
  // Launches a request whose A has come whole; else waits for its rest.
  void LaunchIfWhole(uint64_t id, Arriving arriving);
  void Launch(uint64_t id, Arriving arriving);
  void OnComputed(uint64_t id, const absl::Status& status, StreamResult result);

  // Answers a request with an error unless it has been refused meanwhile.
  void Fail(uint64_t id, const absl::Status& status,
            absl::Duration retry_delay = absl::ZeroDuration());
  // The same for one that is live for certain.
  void QueueError(uint64_t id, const absl::Status& status,
                  absl::Duration retry_delay = absl::ZeroDuration())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Refuses the requests that lack fragments.
  void RefuseArriving(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives up a call whose client does not read.
  void SweepWrite(const SweepRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Refuses the requests whose fragments do not come on.
  void SweepArriving(const SweepRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call, however many requests are outstanding.
  void Break(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Starts whatever can be started: a write, a read, the end.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountBytes(Direction direction, const grpc::ByteBuffer& message) const;
  void StartWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The method of a stream's requests in metrics.
  static constexpr char kMethod[] = "GemmStream";

  GemmStreamHandler* const handler_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  // The client by the latest table; the reading thread's.
  std::shared_ptr<const Peer> client_;
  // The message in hand, of the thread that reads it and then of its copier:
  // its bytes, its fields, its operand, which borrows from both, and its time.
  grpc::ByteBuffer received_;
  v1::GemmStreamRequest message_;
  ReceivedPayload a_;
  absl::Time arrival_;

  Mutex mutex_;
  StreamLedger ledger_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Live> live_ ABSL_GUARDED_BY(mutex_);
  std::deque<QueuedAnswer> ready_ ABSL_GUARDED_BY(mutex_);
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // or handling the message
  bool copying_ ABSL_GUARDED_BY(mutex_) = false;  // the message, on a copier
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;  // by the client
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> broken_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t messages_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  ProgressWatch write_watch_ ABSL_GUARDED_BY(mutex_);
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;

  CallTag<GemmStreamCall, &GemmStreamCall::OnRead> read_tag_;
  CallTag<GemmStreamCall, &GemmStreamCall::OnWritten> written_tag_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_STREAM_CALL_H_
