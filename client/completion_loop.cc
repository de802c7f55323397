// SPDX-License-Identifier: Apache-2.0

#include "client/completion_loop.h"

#if defined(__SANITIZE_THREAD__)
#define QGEMM_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QGEMM_THREAD_SANITIZER 1
#endif
#endif

#ifdef QGEMM_THREAD_SANITIZER
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace qgemm {
namespace {

// The loop whose thread this is.
thread_local const CompletionLoop* current_loop = nullptr;

#ifdef QGEMM_THREAD_SANITIZER
void TagReleased(void* tag) { __tsan_release(tag); }
void TagAcquired(void* tag) { __tsan_acquire(tag); }

// Next() runs gRPC's header-only templates, which are compiled with our flags
// although the queue that orders them is not: their accesses would be taken
// for races.
class UninstrumentedScope {
 public:
  UninstrumentedScope() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~UninstrumentedScope() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
};
#else
void TagReleased(void*) {}
void TagAcquired(void*) {}
struct UninstrumentedScope {
  UninstrumentedScope() {}
};
#endif

bool Next(grpc::CompletionQueue* queue, void** tag, bool* ok) {
  const UninstrumentedScope scope;
  return queue->Next(tag, ok);
}

}  // namespace

CompletionLoop::CompletionLoop(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

CompletionLoop::~CompletionLoop() {
  if (!joined_) Join();
}

void* CompletionLoop::ToGrpc(LoopTag* tag) {
  TagReleased(tag);
  return tag;
}

bool CompletionLoop::OnLoopThread() const { return current_loop == this; }

void CompletionLoop::Join() {
  joined_ = true;
  queue_.Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void CompletionLoop::Run() {
  current_loop = this;
  void* tag = nullptr;
  bool ok = false;
  while (Next(&queue_, &tag, &ok)) {
    TagAcquired(tag);
    static_cast<LoopTag*>(tag)->OnEvent(ok);
  }
}

}  // namespace qgemm
