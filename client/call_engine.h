// SPDX-License-Identifier: Apache-2.0
//
// Makes calls on a pool of channels: retries, at another server if there are
// several, deadlines and cancellation of everything in flight. Knows methods
// and bytes, not their meaning.

#ifndef QGEMM_CLIENT_CALL_ENGINE_H_
#define QGEMM_CLIENT_CALL_ENGINE_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <optional>
#include <random>
#include <unordered_set>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/channel_pool.h"
#include "client/retry.h"
#include "client/token.h"
#include "qgemm/client_options.h"
#include "rpc/completion_queue.h"

namespace qgemm {

// The end of a unary call.
struct CallOutcome {
  absl::Status status;
  grpc::ByteBuffer response;  // if the status is OK
  int attempts = 1;
  size_t server = 0;  // that of the last attempt
};

struct UnaryCall {
  const char* method = nullptr;  // "/package.Service/Method", a literal
  grpc::ByteBuffer request;
  // Its work, and where it may go; `tried` is the engine's.
  ChannelPool::Request where;
  absl::Time deadline = absl::InfiniteFuture();
  // Attempts that were made elsewhere, and the pause after the last of them.
  int attempts = 0;
  absl::Duration pause;
  // Runs exactly once, on a thread of the engine's, with no lock held.
  absl::AnyInvocable<void(CallOutcome)> done;
};

// Thread-safe.
class CallEngine {
 public:
  class PendingCall;

  // `token` is null if calls carry none. `channels` has one or more.
  CallEngine(Channels channels, std::shared_ptr<TokenSource> token,
             const RetryPolicy& retry, int completion_threads);
  CallEngine(const CallEngine&) = delete;
  CallEngine& operator=(const CallEngine&) = delete;
  ~CallEngine();

  // Starts the call and returns it, for Cancel. After Shutdown it ends with
  // CANCELLED, at once and on the calling thread.
  std::weak_ptr<PendingCall> Start(UnaryCall call);

  // Ends a call that never starts, the way Start ends its calls.
  void Fail(absl::Status status, absl::AnyInvocable<void(CallOutcome)> done);
  // The same after `pause`, which may be infinite, unless Cancel comes first.
  std::weak_ptr<PendingCall> FailAfter(
      absl::Duration pause, absl::Status status,
      absl::AnyInvocable<void(CallOutcome)> done);

  // Ends the call with CANCELLED unless it has ended. The engine may be gone.
  static void Cancel(const std::weak_ptr<PendingCall>& call);

  // True on the threads that run `done`.
  bool OnEngineThread() const { return completions_.OnQueueThread(); }

  // For operations of calls between Enter and Leave.
  grpc::CompletionQueue* queue() { return completions_.queue(); }

  bool IsShutDown();

  ChannelPool& pool() { return pool_; }

  // Adds the client's token to a call that a thread of the caller's makes.
  void Authorize(grpc::ClientContext* context);

  // Registers a call that a thread of the caller's makes and waits for, so
  // that Shutdown can cancel it. False after Shutdown: the call must not be
  // made. Otherwise Leave is due once `context` is used no more.
  bool Enter(grpc::ClientContext* context);
  void Leave(grpc::ClientContext* context);

  // The pause before the next attempt (client/retry.h); the engine sets
  // attempt.now and attempt.random.
  std::optional<absl::Duration> PauseAfter(EndedAttempt attempt);
  // Waits; false if Shutdown comes first.
  bool Sleep(absl::Duration pause);

  // Cancels what is in flight and waits until all of it has ended. Once, and
  // not on an engine thread.
  void Shutdown();

 private:
  void Begin(const std::shared_ptr<PendingCall>& pending);
  double Random();
  void Remove(const std::shared_ptr<PendingCall>& call);

  const std::shared_ptr<TokenSource> token_;
  const RetryPolicy retry_;
  ChannelPool pool_;

  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::minstd_rand random_ ABSL_GUARDED_BY(mutex_);
  std::unordered_set<std::shared_ptr<PendingCall>> pending_
      ABSL_GUARDED_BY(mutex_);
  std::unordered_set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
  int sleepers_ ABSL_GUARDED_BY(mutex_) = 0;

  CompletionQueue completions_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CALL_ENGINE_H_
