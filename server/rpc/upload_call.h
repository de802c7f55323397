// SPDX-License-Identifier: Apache-2.0
//
// One LoadWeights call: reads its stream on a completion queue, consumes the
// messages on worker threads, one at a time and in order.

#ifndef QGEMM_SERVER_RPC_UPLOAD_CALL_H_
#define QGEMM_SERVER_RPC_UPLOAD_CALL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/worker_pool.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/rpc_environment.h"
#include "server/weights/upload_session.h"

namespace qgemm {

class UploadCall;

// Who may upload. Thread-safe.
class UploadAdmission {
 public:
  virtual ~UploadAdmission() = default;
  // Waits for the next call.
  virtual void Accept(CompletionQueue* queue) = 0;
  // OK takes a place, until Leave; else RESOURCE_EXHAUSTED or UNAVAILABLE.
  virtual absl::Status Admit(const std::shared_ptr<UploadCall>& call) = 0;
  // Gives the place back, if the call has one.
  virtual void Leave(UploadCall* call) = 0;
};

// Reads ahead by one message while another is consumed; the client is held
// back by gRPC's flow control then. Thread-safe; freed when gRPC's last
// operation and the last worker's task have ended.
class UploadCall : public std::enable_shared_from_this<UploadCall> {
 public:
  // All must outlive the call.
  UploadCall(UploadAdmission* admission, const RpcEnvironment* environment,
             WorkerPool* workers, CompletionQueue* queue);

  void Accept();

  // Ends the call with the error unless it has ended.
  void Refuse(const absl::Status& status);

 private:
  using Message = v1::LoadWeightsRequest;

  void OnAccepted(bool ok);
  void OnRead(bool ok);
  void OnFinished(bool) {}

  // Starts a read if there is room for a message.
  void ReadMore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the next message, or the stream's end, to a worker unless one works
  // on this call.
  void WakeWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // On a worker. One message or the end of the stream.
  void Work();
  void ConsumeNext(std::unique_ptr<Message> message);
  // Completes the upload if the status is an error or deduplicated_ is set.
  absl::Status Consume(const Message& message);
  absl::Status StartSession(const v1::WeightsHeader& header);
  absl::Status AppendChunk(const v1::WeightsChunk& chunk);
  void Commit();
  void End(absl::StatusOr<UploadResult> result);
  bool Claim();
  v1::LoadWeightsResponse ToResponse(const UploadResult& result) const;

  UploadAdmission* const admission_;
  const RpcEnvironment* const environment_;
  WorkerPool* const workers_;
  CompletionQueue* const queue_;
  const LiveCalls::Token token_;
  absl::Time arrival_;

  grpc::ServerContext context_;
  grpc::ServerAsyncReader<v1::LoadWeightsResponse, Message> reader_;
  std::unique_ptr<UploadSession> session_;    // the worker's
  std::optional<Deduplicated> deduplicated_;  // the worker's

  Mutex mutex_;
  std::unique_ptr<Message> incoming_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Message> pending_ ABSL_GUARDED_BY(mutex_);
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  bool stream_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;

  CallTag<UploadCall, &UploadCall::OnAccepted> accepted_tag_;
  CallTag<UploadCall, &UploadCall::OnRead> read_tag_;
  CallTag<UploadCall, &UploadCall::OnFinished> finished_tag_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_UPLOAD_CALL_H_
