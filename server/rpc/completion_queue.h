// SPDX-License-Identifier: Apache-2.0
//
// A gRPC completion queue with a thread of its own, which runs tasks too, and
// the tags that operations on it carry. The one place that hands tags through
// gRPC, so that ThreadSanitizer, which does not see into gRPC, is told of each
// handover here. What a completion means is in the handlers.

#ifndef QGEMM_SERVER_RPC_COMPLETION_QUEUE_H_
#define QGEMM_SERVER_RPC_COMPLETION_QUEUE_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "base/task_runner.h"

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

// Start, and ShutDown once no operation can be started and no task submitted
// any more. Start and ShutDown are for one thread; the rest is for all.
class CompletionQueue final : public TaskRunner {
 public:
  explicit CompletionQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue);
  ~CompletionQueue() override;

  void Start();

  // Ends and joins the thread after the last completion.
  void ShutDown();

  grpc::ServerCompletionQueue* queue() const { return queue_.get(); }

  // Runs between two completions; must not block.
  void Submit(absl::AnyInvocable<void()> task) override;

 private:
  // The tag of the alarm that has the thread look at its tasks.
  class TasksTag final : public CompletionTag {
   public:
    explicit TasksTag(CompletionQueue* queue) : queue_(queue) {}
    void* Arm() { return Publish(); }
    void Complete(bool) override { queue_->RunTasks(); }

   private:
    CompletionQueue* const queue_;
  };

  void Run();
  void RunTasks();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  TasksTag tasks_tag_{this};
  grpc::Alarm alarm_;  // in flight while there are tasks
  Mutex mutex_;
  std::vector<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::AnyInvocable<void()>> running_;  // of the thread
  bool shut_down_ = false;
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_COMPLETION_QUEUE_H_
