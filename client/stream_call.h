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
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/call_engine.h"
#include "client/pending_answer.h"
#include "qgemm/client_options.h"
#include "qgemm/gemm.h"
#include "qgemm/program.h"
#include "qgemm/v1/qgemm.pb.h"
#include "rpc/completion_queue.h"
#include "rpc/payload_message.h"

namespace qgemm {

struct StreamCallOptions {
  int window = 1;
  int64_t a_fragment_bytes = 0;   // in a message
  int64_t c_fragment_bytes = 0;   // the same
  int64_t max_operand_bytes = 0;  // the server's
  absl::Time deadline = absl::InfiniteFuture();
  size_t server = 0;  // that the stream is opened at
  // Memory that a stream cannot carry operands of.
  std::vector<DeviceOperands> device_operands;
};

// Thread-safe.
class StreamCall : public std::enable_shared_from_this<StreamCall> {
 public:
  // `engine` must outlive the call's users; what gRPC still holds of the call
  // does not use it once the call has ended.
  StreamCall(const StreamCallOptions& options, CallEngine* engine);

  // CANCELLED if the engine is shut down.
  absl::Status Start();

  // The methods of GemmStream.
  absl::StatusOr<uint64_t> Submit(const GemmRequest& request,
                                  GemmCallback callback);
  absl::StatusOr<uint64_t> Submit(const RunRequest& request,
                                  RunCallback callback);
  void Cancel(uint64_t id);
  absl::Status Finish();
  // Cancels the call and waits for its end, unless on an engine thread.
  void Abandon();

 private:
  // A request without its whole answer.
  struct Outstanding {
    std::unique_ptr<PendingAnswer> answer;
    uint64_t c_bytes = 0;  // 0: no message of the answer has come
    uint64_t received_bytes = 0;
  };
  // The part of a request that is yet to be written.
  struct Outgoing {
    v1::GemmStreamRequest message;  // the next one, without A
    // A, or a program's inputs, one behind the other.
    std::vector<grpc::Slice> operand;
    size_t operand_bytes = 0;
    size_t sent_bytes = 0;  // of the operand
    bool begun = false;
  };
  // An answer that has come whole, or failed.
  struct Ended {
    std::unique_ptr<PendingAnswer> answer;
    absl::Status status;

    void Run() { answer->End(std::move(status)); }
  };

  void OnStarted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnHalfClosed(bool) {}
  void OnFinished(bool);

  // RESOURCE_EXHAUSTED if the server takes no operand of so many bytes; the
  // message begins with `subject`, as "a has".
  absl::Status CheckOperandFits(absl::string_view subject, int64_t bytes) const;
  // Sends a request whose work `open` names.
  absl::StatusOr<uint64_t> Send(v1::GemmStreamOpen open, absl::Time deadline,
                                std::vector<grpc::Slice> operand,
                                std::unique_ptr<PendingAnswer> answer);
  // Waits for a place in the window. Errors: the reason that there will be
  // none.
  absl::Status AwaitPlace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Writes the next message unless one is being written, or ends this side
  // once there will be none.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Takes what was read, on the thread that read it. Returns the request that
  // it ended, if any. Errors break the stream.
  absl::StatusOr<std::vector<Ended>> Take();
  absl::Status TakeFragment(const v1::GemmStreamResponse& header,
                            const ReceivedPayload& c, Outstanding* request);
  // Ends all outstanding requests with the reason of the call's end.
  std::vector<Ended> TakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ReasonOf(const grpc::Status& status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StreamCallOptions options_;
  CallEngine* const engine_;
  ChannelPool::Place place_;  // set by Start
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
  bool over_ ABSL_GUARDED_BY(mutex_) = false;    // its status has come
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;   // and all callbacks have run
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);  // the reason, once broken

  CallTag<StreamCall, &StreamCall::OnStarted> started_tag_;
  CallTag<StreamCall, &StreamCall::OnRead> read_tag_;
  CallTag<StreamCall, &StreamCall::OnWritten> written_tag_;
  CallTag<StreamCall, &StreamCall::OnHalfClosed> half_closed_tag_;
  CallTag<StreamCall, &StreamCall::OnFinished> finished_tag_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_STREAM_CALL_H_
