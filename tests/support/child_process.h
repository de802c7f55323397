// SPDX-License-Identifier: Apache-2.0
//
// A program as a process of its own, its output kept.

#ifndef QGEMM_TESTS_SUPPORT_CHILD_PROCESS_H_
#define QGEMM_TESTS_SUPPORT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace qgemm {

// Runs a program with flags; killed if it still runs at the end. For one
// thread.
class ChildProcess {
 public:
  // `program` is a path below the folder that Bazel runs tests in.
  ChildProcess(const std::string& program,
               const std::vector<std::string>& flags);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  // Waits until it has printed a line that holds `text`, or ended; returns
  // what follows the text on that line.
  std::string WaitForOutput(const std::string& text);

  void Signal(int signal);

  // Waits for its end and its last output. The exit code, or minus the signal
  // that ended it.
  int Wait();

  // All that it has printed so far.
  std::string output() const;

  // Lets it map so many bytes more than it has mapped, or any number again.
  void LimitFurtherMemory(int64_t bytes);
  void LiftMemoryLimit();

  // Its resident size, and the largest that it has had.
  int64_t ResidentBytes() const { return StatusBytes("VmRSS:"); }
  int64_t PeakResidentBytes() const { return StatusBytes("VmHWM:"); }

 private:
  void ReadOutput();
  // A figure of /proc/PID/status.
  int64_t StatusBytes(const std::string& field) const;

  pid_t pid_ = 0;
  int output_fd_ = -1;
  mutable Mutex mutex_;
  CondVar more_;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  bool output_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread reader_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_CHILD_PROCESS_H_
