// SPDX-License-Identifier: Apache-2.0
//
// The part that the call objects of all RPCs share: gRPC's context, the tags
// of a call's begin and end, and the next call object on the queue.

#ifndef QGEMM_SERVER_RPC_SERVER_CALL_H_
#define QGEMM_SERVER_RPC_SERVER_CALL_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/status.h"
#include "base/clock.h"
#include "rpc/completion_queue.h"
#include "server/metrics/server_metrics.h"
#include "server/net/peer_table.h"
#include "server/rpc/call_registry.h"

namespace qgemm {

// Parts of the server that calls of every RPC use; they outlive the calls.
struct CallServices {
  LiveCalls* live_calls = nullptr;
  ServerMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  const PeerTable* peers = nullptr;
};

// A Call that says so has its OnDone run once the RPC is over for gRPC, whether
// by its answer or because the client left.
enum class WhenDone { kIgnored, kNotified };

// Base of a call object. A Call, made by std::make_shared, has
//   void Await(void* tag)   hands the call to the service's Request method
//   void AcceptNext()       accepts another call object on the same queue
//   void Begin()            handles the request; runs once, on the queue's
//                           thread, when a client has called
//   void End(const absl::Status&), if it uses Refuse
//   void OnDone(), if kWhenDone is kNotified
// gRPC's operations hold a reference each, and the last one to end frees the
// call.
template <typename Call, WhenDone kWhenDone = WhenDone::kIgnored>
class ServerCall : public std::enable_shared_from_this<Call> {
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
  // Both must outlive the call.
  ServerCall(LiveCalls* live_calls, CompletionQueue* queue)
      : live_calls_(live_calls), queue_(queue), token_(live_calls) {}
  ~ServerCall() = default;

  LiveCalls* live_calls() const { return live_calls_; }
  CompletionQueue* queue() const { return queue_; }
  grpc::ServerContext* context() { return &context_; }

  // The tag of the operation that ends the call.
  void* FinishTag() { return finished_tag_.Arm(this->shared_from_this()); }

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
    self().Begin();
  }

  void OnFinished(bool) {}

  void OnDoneTag(bool) {
    if constexpr (kWhenDone == WhenDone::kNotified) self().OnDone();
  }

  LiveCalls* const live_calls_;
  CompletionQueue* const queue_;
  const LiveCalls::Token token_;
  grpc::ServerContext context_;
  CallTag<ServerCall, &ServerCall::OnAccepted> accepted_tag_;
  CallTag<ServerCall, &ServerCall::OnDoneTag> done_tag_;
  CallTag<ServerCall, &ServerCall::OnFinished> finished_tag_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_SERVER_CALL_H_
