// SPDX-License-Identifier: Apache-2.0
//
// qgemm_server as a process of its own.

#ifndef QGEMM_TESTS_END_TO_END_CHILD_SERVER_H_
#define QGEMM_TESTS_END_TO_END_CHILD_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace qgemm {

// Runs the binary with the flags; killed if it still runs at the end. For one
// thread.
class ChildServer {
 public:
  explicit ChildServer(const std::vector<std::string>& flags);
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;
  ~ChildServer();

  // Waits until it has printed a line that holds `text`, or ended; returns
  // what follows the text on that line.
  std::string WaitForOutput(const std::string& text);

  // The first TCP address that it says it serves on.
  std::string WaitForAddress() { return WaitForOutput("serving on "); }

  void Signal(int signal);

  // Waits for its end and its last output. The exit code, or minus the signal
  // that ended it.
  int Wait();

  // All that it has printed so far.
  std::string output() const;

  // The largest resident size that it has had.
  int64_t PeakResidentBytes() const;

 private:
  void ReadOutput();

  pid_t pid_ = 0;
  int output_fd_ = -1;
  mutable Mutex mutex_;
  CondVar more_;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  bool output_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread reader_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_CHILD_SERVER_H_
