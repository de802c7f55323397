// SPDX-License-Identifier: Apache-2.0
//
// Makes calls on a set of channels: retries, deadlines and cancellation of
// everything in flight. Knows methods and bytes, not what they mean.

#ifndef QGEMM_CLIENT_CALL_ENGINE_H_
#define QGEMM_CLIENT_CALL_ENGINE_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client_options.h"
#include "client/completion_loop.h"

namespace qgemm {

// How a unary call ended.
struct CallOutcome {
  absl::Status status;
  grpc::ByteBuffer response;  // if the status is OK
  int attempts = 1;
};

struct UnaryCall {
  const char* method = nullptr;  // "/package.Service/Method", a literal
  grpc::ByteBuffer request;
  absl::Time deadline = absl::InfiniteFuture();
  // Runs exactly once, on a thread of the engine's, with no lock held.
  std::function<void(CallOutcome)> done;
};

// Thread-safe.
class CallEngine {
 public:
  // `channels` has one or more.
  CallEngine(std::vector<std::shared_ptr<grpc::Channel>> channels,
             const RetryPolicy& retry, int completion_threads);
  CallEngine(const CallEngine&) = delete;
  CallEngine& operator=(const CallEngine&) = delete;
  ~CallEngine();

  // Starts the call and returns. After Shutdown it ends with CANCELLED.
  void Start(UnaryCall call);

  // Ends a call that never starts, the way Start ends its calls.
  void Fail(absl::Status status, std::function<void(CallOutcome)> done);

  // True on the threads that run `done`.
  bool OnEngineThread() const { return loop_.OnLoopThread(); }

  // For operations of calls between Enter and Leave.
  grpc::CompletionQueue* queue() { return loop_.queue(); }

  bool IsShutDown();

  // The channels in turn.
  std::shared_ptr<grpc::Channel> NextChannel();
  // The same for streams, of which each has a channel for long.
  std::shared_ptr<grpc::Channel> NextStreamChannel();

  // Lets Shutdown cancel a call that a thread of the caller's makes and waits
  // for. False after Shutdown, and the call must not be made then; otherwise
  // Leave is due once `context` is used no more.
  bool Enter(grpc::ClientContext* context);
  void Leave(grpc::ClientContext* context);

  // The pause before the next attempt of such a call (client/retry.h).
  std::optional<absl::Duration> PauseAfter(const absl::Status& status,
                                           int attempt, absl::Time deadline);
  // Waits; false if Shutdown comes first.
  bool Sleep(absl::Duration pause);

  // Cancels what is in flight and waits until all of it has ended. Once, and
  // not on an engine thread.
  void Shutdown();

 private:
  class PendingCall;

  void Begin(const std::shared_ptr<PendingCall>& pending);
  double Random();
  void Remove(const std::shared_ptr<PendingCall>& call);

  const std::vector<std::shared_ptr<grpc::Channel>> channels_;
  const RetryPolicy retry_;

  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  size_t next_channel_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_stream_channel_ ABSL_GUARDED_BY(mutex_) = 0;
  std::minstd_rand random_ ABSL_GUARDED_BY(mutex_);
  std::unordered_set<std::shared_ptr<PendingCall>> pending_
      ABSL_GUARDED_BY(mutex_);
  std::unordered_set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
  int sleepers_ ABSL_GUARDED_BY(mutex_) = 0;

  CompletionLoop loop_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CALL_ENGINE_H_
