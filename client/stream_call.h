// SPDX-License-Identifier: Apache-2.0
//
// The call behind a GemmStream: messages in order, answers put together, one
// operation of each kind on the completion queue at a time.

#ifndef QGEMM_CLIENT_STREAM_CALL_H_
#define QGEMM_CLIENT_STREAM_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/call_engine.h"
#include "client/completion_loop.h"
#include "client/gemm.h"
#include "rpc/payload_message.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

struct StreamCallOptions {
  int window = 1;
  int64_t a_fragment_bytes = 0;   // in a message
  int64_t c_fragment_bytes = 0;   // the same
  int64_t max_operand_bytes = 0;  // the server's
  absl::Time deadline = absl::InfiniteFuture();
};

// Thread-safe.
class StreamCall : public std::enable_shared_from_this<StreamCall> {
 public:
  // `engine` must outlive the call's users; what gRPC still holds of the call
  // does not use it once the call has ended.
  StreamCall(const StreamCallOptions& options, CallEngine* engine);

  // CANCELLED if the engine is shut down.
  absl::Status Start();

  // As GemmStream says.
  absl::StatusOr<uint64_t> Submit(const GemmOptions& options,
                                  GemmCallback callback);
  void Cancel(uint64_t id);
  absl::Status Finish();
  // Cancels the call and waits for its end, unless on an engine thread.
  void Abandon();

 private:
  template <void (StreamCall::*kMethod)(bool ok)>
  class Tag final : public LoopTag {
   public:
    void* Arm(std::shared_ptr<StreamCall> call) {
      call_ = std::move(call);
      return CompletionLoop::ToGrpc(this);
    }
    void OnEvent(bool ok) override {
      const std::shared_ptr<StreamCall> call = std::move(call_);
      ((*call).*kMethod)(ok);
    }

   private:
    std::shared_ptr<StreamCall> call_;
  };

  // A request without its whole answer.
  struct Outstanding {
    GemmCallback callback;
    int64_t m = 0;
    FloatType c_type = FloatType::kFloat16;
    GemmResult result;
    uint64_t c_bytes = 0;  // 0: no message of the answer has come
  };
  // What is to be written of a request.
  struct Outgoing {
    v1::GemmStreamRequest message;  // the next one, without A
    grpc::Slice operand;
    size_t sent_bytes = 0;  // of the operand
    bool begun = false;
  };
  // An answer that has come whole, or failed.
  struct Ended {
    GemmCallback callback;
    absl::StatusOr<GemmResult> result;
  };

  void OnStarted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnHalfClosed(bool) {}
  void OnFinished(bool);

  absl::Status Check(const GemmOptions& options) const;
  Outgoing MessageOf(const GemmOptions& options, grpc::Slice operand) const;
  // OK once there is a place; why there will be none.
  absl::Status AwaitPlace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The next message, if there is one and none is being written; the end of
  // this side once there will be none.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What was read, on the thread that read it: nothing, or a request's end.
  // Errors break the stream.
  absl::StatusOr<std::vector<Ended>> Take();
  absl::Status TakeFragment(const v1::GemmStreamResponse& header,
                            const ReceivedPayload& c, Outstanding* request);
  // All that is outstanding, ended by the call's end.
  std::vector<Ended> TakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ReasonOf(const grpc::Status& status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StreamCallOptions options_;
  CallEngine* const engine_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer received_;  // of the reading thread
  grpc::Status status_;        // read once the call has ended

  Mutex mutex_;
  CondVar changed_;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::unordered_map<uint64_t, Outstanding> outstanding_
      ABSL_GUARDED_BY(mutex_);
  std::deque<Outgoing> outgoing_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool unwritable_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_close_ ABSL_GUARDED_BY(mutex_) = false;  // asked for
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;    // by its status
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;   // and all callbacks have run
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);  // why, once it is

  Tag<&StreamCall::OnStarted> started_tag_;
  Tag<&StreamCall::OnRead> read_tag_;
  Tag<&StreamCall::OnWritten> written_tag_;
  Tag<&StreamCall::OnHalfClosed> half_closed_tag_;
  Tag<&StreamCall::OnFinished> finished_tag_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_STREAM_CALL_H_
