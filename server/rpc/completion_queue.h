// SPDX-License-Identifier: Apache-2.0
//
// A gRPC completion queue with a thread of its own, and the tags that
// operations on it carry. The one place that hands tags through gRPC, so that
// ThreadSanitizer, which does not see into gRPC, is told of each handover
// here. What a completion means is in the handlers.

#ifndef QGEMM_SERVER_RPC_COMPLETION_QUEUE_H_
#define QGEMM_SERVER_RPC_COMPLETION_QUEUE_H_

#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>
#include <utility>

namespace qgemm {

// What a completion queue returns when an operation has ended.
class CompletionTag {
 public:
  virtual ~CompletionTag() = default;

  // Runs on the queue's thread; must not block. `ok` as gRPC documents it for
  // the operation.
  virtual void Complete(bool ok) = 0;

 protected:
  // What to pass to gRPC: publishes all writes so far to Complete's thread.
  void* Publish();
};

// The tag of one kind of operation of a call; one of them in flight at a
// time. Holds the call alive meanwhile, then runs its method.
template <typename Call, void (Call::*kMethod)(bool ok)>
class CallTag final : public CompletionTag {
 public:
  // To be passed to the gRPC operation.
  void* Arm(std::shared_ptr<Call> call) {
    call_ = std::move(call);
    return Publish();
  }

  // For a tag that gRPC will not return.
  void Disarm() { call_.reset(); }

  void Complete(bool ok) override {
    const std::shared_ptr<Call> call = std::move(call_);
    ((*call).*kMethod)(ok);
  }

 private:
  std::shared_ptr<Call> call_;
};

// Start, and ShutDown once no operation can be started any more. Start and
// ShutDown are for one thread; queue() is for all.
class CompletionQueue {
 public:
  explicit CompletionQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue);
  ~CompletionQueue();

  void Start();

  // Ends and joins the thread after the last completion.
  void ShutDown();

  grpc::ServerCompletionQueue* queue() const { return queue_.get(); }

 private:
  void Run();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  bool shut_down_ = false;
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_COMPLETION_QUEUE_H_
