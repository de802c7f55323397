// SPDX-License-Identifier: Apache-2.0
//
// A gRPC completion queue with threads of its own, and the tags that its
// operations carry. Tags pass through gRPC here alone, because ThreadSanitizer
// does not see into gRPC and is told of each handover.

#ifndef QGEMM_RPC_COMPLETION_QUEUE_H_
#define QGEMM_RPC_COMPLETION_QUEUE_H_

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

// Receives the end of one operation at a time.
class CompletionTag {
 public:
  virtual ~CompletionTag() = default;

  // Runs on a thread of the queue; must not block a queue that serves others.
  // `ok` is as gRPC documents it for the operation.
  virtual void Complete(bool ok) = 0;

 protected:
  // The tag as gRPC takes it; to be called right where the operation starts.
  // Publishes all writes so far to the thread that runs Complete.
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

  // Drops the call, for a tag that gRPC will not return.
  void Disarm() { call_.reset(); }

  void Complete(bool ok) override {
    const std::shared_ptr<Call> call = std::move(call_);
    ((*call).*kMethod)(ok);
  }

 private:
  std::shared_ptr<Call> call_;
};

// Start once, and ShutDown once no operation can be started and no task
// submitted any more; both on one thread, which is none of the queue's. All
// else is thread-safe.
class CompletionQueue final : public TaskRunner {
 public:
  // A client's queue.
  CompletionQueue();
  // A server's, as grpc::ServerBuilder::AddCompletionQueue makes it.
  explicit CompletionQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue);
  ~CompletionQueue() override;

  void Start(int threads = 1);

  // Ends and joins the threads after the last completion.
  void ShutDown();

  grpc::CompletionQueue* queue() const { return queue_.get(); }
  // Null for a client's queue.
  grpc::ServerCompletionQueue* server_queue() const { return server_queue_; }

  // True on one of the queue's threads.
  bool OnQueueThread() const;

  // Runs `task` between two completions; it must not block. For queues of one
  // thread.
  void Submit(absl::AnyInvocable<void()> task) override;

 private:
  // The tag of the alarm that makes the thread run its tasks.
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

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  grpc::ServerCompletionQueue* const server_queue_;
  TasksTag tasks_tag_{this};
  grpc::Alarm alarm_;  // in flight while there are tasks
  Mutex mutex_;
  std::vector<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::AnyInvocable<void()>> running_;  // the thread's own
  bool shut_down_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace qgemm

#endif  // QGEMM_RPC_COMPLETION_QUEUE_H_
