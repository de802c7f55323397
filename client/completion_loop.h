// SPDX-License-Identifier: Apache-2.0
//
// A gRPC completion queue and the threads that wait on it. The one place of
// the client that tells ThreadSanitizer what a completion queue orders.

#ifndef QGEMM_CLIENT_COMPLETION_LOOP_H_
#define QGEMM_CLIENT_COMPLETION_LOOP_H_

#include <grpcpp/completion_queue.h>

#include <thread>
#include <vector>

namespace qgemm {

// Something that awaits events of a completion queue.
class LoopTag {
 public:
  virtual ~LoopTag() = default;
  // Runs on a thread of the loop; `ok` is gRPC's.
  virtual void OnEvent(bool ok) = 0;
};

// Thread-safe, but for Join.
class CompletionLoop {
 public:
  explicit CompletionLoop(int threads);
  CompletionLoop(const CompletionLoop&) = delete;
  CompletionLoop& operator=(const CompletionLoop&) = delete;
  ~CompletionLoop();

  grpc::CompletionQueue* queue() { return &queue_; }

  // The tag as gRPC takes it; to be made right where it is handed over.
  static void* ToGrpc(LoopTag* tag);

  // True on one of the loop's threads.
  bool OnLoopThread() const;

  // Ends the threads once the events of all operations have been handled; no
  // operation may be started from then on. Once, and not on a loop thread.
  void Join();

 private:
  void Run();

  grpc::CompletionQueue queue_;
  bool joined_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_COMPLETION_LOOP_H_
