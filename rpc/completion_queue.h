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
#include "absl/functional/function_ref.h"
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

// A place in its queue's list of links. The list is touched on the queue's one
// thread alone, in completions and tasks, and hence has no lock.
class QueueLink {
 public:
  QueueLink(const QueueLink&) = delete;
  QueueLink& operator=(const QueueLink&) = delete;

 protected:
  QueueLink() = default;
  ~QueueLink() = default;

 private:
  friend class CompletionQueue;

  QueueLink* previous_ = nullptr;
  QueueLink* next_ = nullptr;
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

  // On the queue's thread, for queues of one. A link is in the list once, and
  // must leave it before its end.
  void Link(QueueLink* link);
  void Unlink(QueueLink* link);
  // Runs `visit` with each link; it must not change the list.
  void ForEachLink(absl::FunctionRef<void(QueueLink*)> visit);

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
  QueueLink* first_link_ = nullptr;                  // the thread's own
  bool shut_down_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace qgemm

#endif  // QGEMM_RPC_COMPLETION_QUEUE_H_
