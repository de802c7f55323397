// SPDX-License-Identifier: Apache-2.0
//
// The part that the call objects of all RPCs share: gRPC's context, the tags
// of a call's begin and end, its client and whether that may call, the next
// call object on the queue, and the end of an answer that nobody reads.

#ifndef QGEMM_SERVER_RPC_SERVER_CALL_H_
#define QGEMM_SERVER_RPC_SERVER_CALL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rpc/completion_queue.h"
#include "server/metrics/server_metrics.h"
#include "server/net/peer_table.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/idle_sweeper.h"

namespace qgemm {

// Parts of the server that calls of every RPC use; they outlive the calls.
struct CallServices {
  LiveCalls* live_calls = nullptr;
  ServerMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  const CallGate* gate = nullptr;
  // Gemm requests that take as long are logged.
  absl::Duration slow_request = absl::InfiniteDuration();
};

// A Call that says so has its OnDone run once the RPC is over for gRPC, whether
// by its answer or because the client left.
enum class WhenDone { kIgnored, kNotified };

// Operand of an answer that goes out.
struct AnswerProgress {
  int64_t slices_sent = 0;
  int64_t bytes_held = 0;
};

// Base of a call object. A Call, made by std::make_shared, has
//   void Await(void* tag)   hands the call to the service's Request method
//   void AcceptNext()       accepts another call object on the same queue
//   void Begin()            handles the request; runs once, on the queue's
//                           thread, when a client has called that may
//   void Deny(const absl::Status&), in place of Begin: ends the call of one
//                           that may not, which is counted and logged
//   void End(const absl::Status&), if it uses Refuse
//   void OnDone(), if kWhenDone is kNotified
//   void OnSweep(const SweepRound&), if it may stop before its answer
//   AnswerProgress Sent(), if its answer has an operand
// gRPC's operations hold a reference each, and the last one to end frees the
// call.
template <typename Call, WhenDone kWhenDone = WhenDone::kIgnored>
class ServerCall : public std::enable_shared_from_this<Call>,
                   private SweptCall {
 public:
  ServerCall(const ServerCall&) = delete;
  ServerCall& operator=(const ServerCall&) = delete;

  // Waits for a client to call. Once.
  void Accept() {
    if constexpr (kWhenDone == WhenDone::kNotified) {
      context_.AsyncNotifyWhenDone(done_tag_.Arm(this->shared_from_this()));
    }
    self().Await(accepted_tag_.Arm(this->shared_from_this()));
  }

 protected:
  // Parts of the services and the queue must outlive the call.
  ServerCall(const CallServices& services, const Rpc& rpc,
             CompletionQueue* queue)
      : live_calls_(services.live_calls),
        metrics_(services.metrics),
        gate_(services.gate),
        rpc_(rpc),
        queue_(queue),
        token_(services.live_calls) {}
  ~ServerCall() = default;

  LiveCalls* live_calls() const { return live_calls_; }
  CompletionQueue* queue() const { return queue_; }
  grpc::ServerContext* context() { return &context_; }
  // The client that called; from Begin or Deny on.
  const std::shared_ptr<const Peer>& peer() const { return admission_.peer; }

  // The client by the access table that is in force now, for calls that stay
  // open. On the queue's thread. Errors: as when the call arrived.
  absl::StatusOr<std::shared_ptr<const Peer>> CurrentPeer() {
    if (!gate_->IsCurrent(current_.generation)) {
      current_ = gate_->Admit(rpc_, context_);
    }
    if (!current_.status.ok()) return current_.status;
    return current_.peer;
  }

  // The tag of the operation that ends the call.
  void* FinishTag() {
    void* const tag = finished_tag_.Arm(this->shared_from_this());
    answering_.store(true, std::memory_order_release);
    return tag;
  }
  // Runs on the queue's thread, about once a second, from Begin until the call
  // is answered.
  void OnSweep(const SweepRound&) {}
  // Progress of the answer; may be called from Begin on.
  AnswerProgress Sent() const { return {}; }

  // Ends a call that CheckServing refused, now or when the server releases its
  // refusals.
  void Refuse(const absl::Status& status) {
    live_calls_->Refuse(
        [call = this->shared_from_this(), status] { call->End(status); });
  }

 private:
  Call& self() { return static_cast<Call&>(*this); }

  void OnAccepted(bool ok) {
    if (!ok) {  // the server shut down; gRPC will not return the done tag
      done_tag_.Disarm();
      return;
    }
    self().AcceptNext();
    queue_->Link(this);
    admission_ = gate_->Admit(rpc_, context_);
    current_ = admission_;
    if (admission_.status.ok()) return self().Begin();
    metrics_->RpcEnded(rpc_.method, admission_.status.code(),
                       absl::ZeroDuration());
    self().Deny(admission_.status);
  }

  void OnFinished(bool) { queue_->Unlink(this); }

  void OnDoneTag(bool) {
    if constexpr (kWhenDone == WhenDone::kNotified) self().OnDone();
  }

  void Sweep(const SweepRound& round) final {
    if (!answering_.load(std::memory_order_acquire)) {
      return self().OnSweep(round);
    }
    const AnswerProgress sent = self().Sent();
    ++round.waiting->answers;
    round.waiting->bytes += sent.bytes_held;
    const ProgressLimits limits = {round.limits.idle_timeout, 0};
    if (given_up_ || answer_watch_.Look(sent.slices_sent, limits, round.now) ==
                         Progress::kFine) {
      return;
    }
    given_up_ = true;
    round.metrics->CallTimedOut("answer_idle");
    context_.TryCancel();
  }

  LiveCalls* const live_calls_;
  ServerMetrics* const metrics_;
  const CallGate* const gate_;
  const Rpc rpc_;
  CompletionQueue* const queue_;
  const LiveCalls::Token token_;
  grpc::ServerContext context_;
  CallGate::Admission admission_;  // when the call arrived
  CallGate::Admission current_;    // the latest; the queue's thread's
  CallTag<ServerCall, &ServerCall::OnAccepted> accepted_tag_;
  CallTag<ServerCall, &ServerCall::OnDoneTag> done_tag_;
  CallTag<ServerCall, &ServerCall::OnFinished> finished_tag_;
  std::atomic<bool> answering_{false};
  ProgressWatch answer_watch_;  // the sweep's, as is what follows
  bool given_up_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_SERVER_CALL_H_
