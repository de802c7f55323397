// SPDX-License-Identifier: Apache-2.0
//
// The polling loop, and ThreadSanitizer's view of a tag's way through gRPC.

#include "server/rpc/completion_queue.h"

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

void CompletionQueue::Run() {
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) {
    TsanAcquire(tag);
    static_cast<CompletionTag*>(tag)->Complete(ok);
  }
}

}  // namespace qgemm
