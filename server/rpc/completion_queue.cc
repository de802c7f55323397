// SPDX-License-Identifier: Apache-2.0
//
// The polling loop, and ThreadSanitizer's view of a tag's way through gRPC.

#include "server/rpc/completion_queue.h"

#include <utility>

#include "base/tsan.h"

namespace qgemm {

void* CompletionTag::Publish() {
  TsanRelease(this);
  return this;
}

CompletionQueue::CompletionQueue(
    std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : queue_(std::move(queue)) {}

CompletionQueue::~CompletionQueue() { ShutDown(); }

void CompletionQueue::Start() {
  thread_ = std::thread([this] { Run(); });
}

void CompletionQueue::ShutDown() {
  if (shut_down_) return;
  shut_down_ = true;
  queue_->Shutdown();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    Run();  // gRPC wants a queue drained even if it never served
  }
}

void CompletionQueue::Submit(absl::AnyInvocable<void()> task) {
  bool is_first;
  {
    MutexLock lock(&mutex_);
    is_first = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  if (is_first) {
    alarm_.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC),
               tasks_tag_.Arm());
  }
}

void CompletionQueue::RunTasks() {
  {
    MutexLock lock(&mutex_);
    running_.swap(tasks_);
  }
  for (absl::AnyInvocable<void()>& task : running_) task();
  running_.clear();
}

void CompletionQueue::Run() {
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) {
    TsanAcquire(tag);
    static_cast<CompletionTag*>(tag)->Complete(ok);
  }
}

}  // namespace qgemm
