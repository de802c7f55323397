// SPDX-License-Identifier: Apache-2.0
//
// The polling loop, and ThreadSanitizer's view of a tag's way through gRPC.

#include "rpc/completion_queue.h"

#include <utility>

#include "base/tsan.h"

#ifdef QGEMM_TSAN
extern "C" {

void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);

// ThreadSanitizer's runtime calls these two: it leaves out the distribution's
// libraries, which are not instrumented, and the code that gRPC's and Abseil's
// headers put into our object files and that those libraries call, whose locks
// are inside them.
const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1";
}

const char* __tsan_default_suppressions() {
  return "race:grpc::internal::\n"
         "race:grpc_event_engine::\n"
         "race:grpc::CompletionQueue::\n"
         "race:google::protobuf::\n";
}

}  // extern "C"
#endif  // QGEMM_TSAN

namespace qgemm {
namespace {

// The queue whose thread this is.
thread_local const CompletionQueue* current_queue = nullptr;

// Hides accesses from ThreadSanitizer while it lives. Next runs templates of
// gRPC's headers, which our flags instrument, on memory that gRPC's own locks
// order.
class UninstrumentedScope {
 public:
#ifdef QGEMM_TSAN
  UninstrumentedScope() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~UninstrumentedScope() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  UninstrumentedScope() {}
#endif
};

bool Next(grpc::CompletionQueue* queue, void** tag, bool* ok) {
  const UninstrumentedScope scope;
  return queue->Next(tag, ok);
}

}  // namespace

void* CompletionTag::Publish() {
  TsanRelease(this);
  return this;
}

CompletionQueue::CompletionQueue()
    : queue_(std::make_unique<grpc::CompletionQueue>()),
      server_queue_(nullptr) {}

CompletionQueue::CompletionQueue(
    std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : queue_(std::move(queue)),
      server_queue_(static_cast<grpc::ServerCompletionQueue*>(queue_.get())) {}

CompletionQueue::~CompletionQueue() { ShutDown(); }

void CompletionQueue::Start(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

void CompletionQueue::ShutDown() {
  if (shut_down_) return;
  shut_down_ = true;
  queue_->Shutdown();
  // gRPC wants a queue drained even if it never served.
  if (threads_.empty()) Run();
  for (std::thread& thread : threads_) thread.join();
}

bool CompletionQueue::OnQueueThread() const { return current_queue == this; }

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

void CompletionQueue::Link(QueueLink* link) {
  link->next_ = first_link_;
  if (first_link_ != nullptr) first_link_->previous_ = link;
  first_link_ = link;
}

void CompletionQueue::Unlink(QueueLink* link) {
  if (link->next_ != nullptr) link->next_->previous_ = link->previous_;
  (link->previous_ == nullptr ? first_link_ : link->previous_->next_) =
      link->next_;
  link->previous_ = nullptr;
  link->next_ = nullptr;
}

void CompletionQueue::ForEachLink(absl::FunctionRef<void(QueueLink*)> visit) {
  for (QueueLink* link = first_link_; link != nullptr; link = link->next_) {
    visit(link);
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
  const CompletionQueue* const outer_queue = std::exchange(current_queue, this);
  void* tag;
  bool ok;
  while (Next(queue_.get(), &tag, &ok)) {
    TsanAcquire(tag);
    static_cast<CompletionTag*>(tag)->Complete(ok);
  }
  current_queue = outer_queue;
}

}  // namespace qgemm
