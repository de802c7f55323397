// SPDX-License-Identifier: Apache-2.0
//
// One call of LoadWeights: the way of an upload's messages from gRPC to the
// workers, and every way in which it ends.

#ifndef QGEMM_SERVER_RPC_LOAD_WEIGHTS_CALL_H_
#define QGEMM_SERVER_RPC_LOAD_WEIGHTS_CALL_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "qgemm/v1/qgemm.pb.h"
#include "rpc/completion_queue.h"
#include "server/rpc/handlers.h"
#include "server/rpc/idle_sweeper.h"
#include "server/rpc/server_call.h"
#include "server/weights/upload_session.h"
#include "server/weights/upload_table.h"

namespace qgemm {

// Reads ahead by one message while another is consumed; the client is held
// back by gRPC's flow control then. Thread-safe; freed when gRPC's last
// operation and the last worker's task have ended.
class LoadWeightsCall final
    : public ServerCall<LoadWeightsCall, WhenDone::kNotified> {
 public:
  // The handler must outlive the call.
  LoadWeightsCall(LoadWeightsHandler* handler, CompletionQueue* queue);

  // Ends the call with the error and returns true, unless it has ended. The
  // session is left to the worker.
  bool Abort(const absl::Status& status);

 private:
  friend class ServerCall<LoadWeightsCall, WhenDone::kNotified>;

  // State of the client's side.
  enum class Stream {
    kOpen,
    // No more messages come; it is not known yet if the client said so or went.
    kStopped,
    kEnded,  // the client said so
    kGone,   // the call was cancelled, or its deadline passed
  };

  // State of an upload that waits for another one.
  enum class Turn { kNone, kAwaited, kCome };

  void Await(void* tag);
  void AcceptNext();
  void Begin();
  void Deny(const absl::Status& status);
  void OnRead(bool ok);
  void OnProbed(bool ok);
  void OnDone();
  void OnSweep(const SweepRound& round);

  // Starts a read if there is room for a message.
  void ReadMore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Finds out why no more messages come: gRPC sends nothing on a call that is
  // dead, and a read ends in the same way on that as at the stream's end.
  void Probe() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the next step to a worker unless one works on this call.
  void WakeWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For the worker.
  bool HasStep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Consumes one message or the end of the stream, on a worker.
  void Work();
  // Completes the upload if the status is an error or deduplicated_ is set.
  void EndUnlessWanted(const absl::Status& status);
  absl::Status Consume(grpc::ByteBuffer* message);
  absl::Status StartSession(const v1::WeightsHeader& header);
  // The same, unless the upload must wait for another one of the same layer:
  // OnTurn begins it again then.
  absl::Status StartUpload(UploadHeader header);
  // False if the upload must wait.
  bool TakeClaim(const UploadHeader& header);
  void OnTurn();
  absl::Status AppendChunk(const v1::WeightsChunk& chunk);
  void Commit();
  // OK, or the error of a call that is over.
  absl::Status CheckWanted();
  void End(absl::StatusOr<UploadResult> result);
  bool Claim(absl::StatusCode code);
  // Drops the session, which waits to be continued if the code says that the
  // client may come back.
  void LetGo(absl::StatusCode code);
  void Leave(absl::StatusCode code);
  // Lines of the log about the upload's begin and its end.
  void LogBegin(const WeightsSpec& spec) const;
  void LogEnd(const absl::StatusOr<UploadResult>& result) const;
  v1::LoadWeightsResponse ToResponse(const UploadResult& result) const;

  LoadWeightsHandler* const handler_;
  absl::Time arrival_;
  std::string name_;  // to bind; the worker's
  grpc::ServerAsyncReader<grpc::ByteBuffer, grpc::ByteBuffer> reader_;
  std::optional<UploadTable::Claim> claim_;   // the worker's
  std::unique_ptr<UploadSession> session_;    // the worker's
  std::optional<UploadHeader> header_;        // without a claim; the worker's
  std::optional<Deduplicated> deduplicated_;  // the worker's
  // Grows as the upload gets on.
  std::atomic<int64_t> consumed_bytes_{0};
  ProgressWatch watch_;                // the sweep's
  int64_t messages_at_last_look_ = 0;  // the sweep's

  Mutex mutex_;
  grpc::ByteBuffer incoming_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::ByteBuffer> pending_ ABSL_GUARDED_BY(mutex_);
  Stream stream_ ABSL_GUARDED_BY(mutex_) = Stream::kOpen;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  Turn turn_ ABSL_GUARDED_BY(mutex_) = Turn::kNone;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusCode answer_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;
  int64_t messages_ ABSL_GUARDED_BY(mutex_) = 0;  // that were consumed

  CallTag<LoadWeightsCall, &LoadWeightsCall::OnRead> read_tag_;
  CallTag<LoadWeightsCall, &LoadWeightsCall::OnProbed> probe_tag_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_LOAD_WEIGHTS_CALL_H_
