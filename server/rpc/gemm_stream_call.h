// SPDX-License-Identifier: Apache-2.0
//
// One GemmStream call: reads requests as long as there is room for them, and
// sends answers as they come, one message at a time each way.

#ifndef QGEMM_SERVER_RPC_GEMM_STREAM_CALL_H_
#define QGEMM_SERVER_RPC_GEMM_STREAM_CALL_H_

#include <grpcpp/grpcpp.h>

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
#include "proto/payload_message.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/gemm_plan.h"
#include "server/rpc/live_calls.h"
#include "server/rpc/partial_operands.h"
#include "server/rpc/rpc_environment.h"
#include "server/rpc/stream_answer.h"
#include "server/rpc/stream_ledger.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

class GemmStreamCall;

// Who may stream. Thread-safe.
class StreamAdmission {
 public:
  virtual ~StreamAdmission() = default;
  // Waits for the next call.
  virtual void Accept(CompletionQueue* queue) = 0;
  // OK, and the call hears of a drain until Leave; or UNAVAILABLE.
  virtual absl::Status Admit(const std::shared_ptr<GemmStreamCall>& call) = 0;
  virtual void Leave(GemmStreamCall* call) = 0;
};

// Thread-safe; freed when gRPC's last operation and the last request have
// ended.
class GemmStreamCall : public std::enable_shared_from_this<GemmStreamCall> {
 public:
  // All must outlive the call.
  GemmStreamCall(StreamAdmission* admission, const RpcEnvironment* environment,
                 PartialOperands* partial_operands, CompletionQueue* queue);

  void Accept();

  // Requests that have not come whole, and those to come, are refused with
  // UNAVAILABLE; the call ends once the others are answered.
  void BeginDrain();

 private:
  // A request from its checks to its launch.
  struct Arriving {
    std::unique_ptr<GemmRequest> request;
    GemmPlan plan;
    PartialOperands::Share share;
  };
  // A request that is neither refused nor computed.
  struct Live {
    absl::Time arrival;
    std::shared_ptr<std::atomic<bool>> cancelled =
        std::make_shared<std::atomic<bool>>(false);
    // While A lacks fragments; without its request while one is copied.
    Arriving arriving;
  };

  struct QueuedAnswer {
    StreamAnswer answer;
    bool ends_request = true;  // or its message was none
  };

  void OnAccepted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool) {}
  void OnDone(bool);

  // One message, on the thread that read it. An error ends the stream.
  absl::Status Take();
  absl::Status TakeFirst(const v1::GemmStreamRequest& message,
                         const ReceivedPayload& a);
  absl::Status TakeFragment(const v1::GemmStreamRequest& message,
                            const ReceivedPayload& a);
  absl::Status TakeCancel(const v1::GemmStreamRequest& message,
                          const ReceivedPayload& a);

  // The request of a first message; errors are the request's.
  absl::StatusOr<Arriving> Check(const v1::GemmStreamRequest& message,
                                 const ReceivedPayload& a) const;
  // Memory for A, and what came of it.
  absl::Status Stage(const ReceivedPayload& a, Arriving* arriving);
  // When it came, until when it is wanted, and where the result goes.
  void Address(const v1::GemmStreamRequest& message, Arriving* arriving);
  // Launches a request whose A has come whole; else keeps it for its rest.
  void Keep(uint64_t id, Arriving arriving);
  void Launch(uint64_t id, Arriving arriving);
  void OnComputed(uint64_t id, const absl::Status& status, StreamResult result);

  // Answers a live request with an error.
  void Fail(uint64_t id, const absl::Status& status,
            absl::Duration retry_delay);
  // The same of one that is live for certain.
  void QueueError(uint64_t id, const absl::Status& status,
                  absl::Duration retry_delay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Refuses the requests that lack fragments.
  void RefuseArriving(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call whatever is outstanding.
  void Break(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Starts what can be started: a write, a read, the end.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StreamAdmission* const admission_;
  const RpcEnvironment* const environment_;
  PartialOperands* const partial_operands_;
  CompletionQueue* const queue_;
  const LiveCalls::Token token_;

  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  grpc::ByteBuffer received_;  // of the reading thread
  absl::Time arrival_;         // of that message; of the reading thread

  Mutex mutex_;
  StreamLedger ledger_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Live> live_ ABSL_GUARDED_BY(mutex_);
  std::deque<QueuedAnswer> ready_ ABSL_GUARDED_BY(mutex_);
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // or taking what was read
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;  // by the client
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> broken_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;

  CallTag<GemmStreamCall, &GemmStreamCall::OnAccepted> accepted_tag_;
  CallTag<GemmStreamCall, &GemmStreamCall::OnRead> read_tag_;
  CallTag<GemmStreamCall, &GemmStreamCall::OnWritten> written_tag_;
  CallTag<GemmStreamCall, &GemmStreamCall::OnFinished> finished_tag_;
  CallTag<GemmStreamCall, &GemmStreamCall::OnDone> done_tag_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_STREAM_CALL_H_
