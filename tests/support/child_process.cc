// SPDX-License-Identifier: Apache-2.0

#include "tests/support/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace qgemm {
ChildProcess::ChildProcess(const std::string& program,
                           const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {program};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int ends[2];
  CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
  pid_ = fork();
  CHECK_GE(pid_, 0);
  if (pid_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  close(ends[1]);
  output_fd_ = ends[0];
  reader_ = std::thread([this] { ReadOutput(); });
}

ChildProcess::~ChildProcess() {
  if (pid_ != 0) {
    Signal(SIGKILL);
    Wait();
  }
  reader_.join();
  close(output_fd_);
}

void ChildProcess::ReadOutput() {
  char buffer[4096];
  ssize_t size;
  while ((size = read(output_fd_, buffer, sizeof(buffer))) > 0) {
    MutexLock lock(&mutex_);
    output_.append(buffer, size);
    more_.SignalAll();
  }
  MutexLock lock(&mutex_);
  output_ended_ = true;
  more_.SignalAll();
}

std::string ChildProcess::WaitForOutput(const std::string& text) {
  MutexLock lock(&mutex_);
  while (true) {
    const size_t start = output_.find(text);
    const size_t end =
        start == std::string::npos ? start : output_.find('\n', start);
    if (end != std::string::npos) {
      return output_.substr(start + text.size(), end - start - text.size());
    }
    CHECK(!output_ended_) << "no \"" << text << "\" in " << output_;
    more_.Wait(&mutex_);
  }
}

void ChildProcess::Signal(int signal) { CHECK_EQ(kill(pid_, signal), 0); }

int ChildProcess::Wait() {
  int status = 0;
  CHECK_EQ(waitpid(std::exchange(pid_, 0), &status, 0) > 0, true);
  MutexLock lock(&mutex_);
  while (!output_ended_) more_.Wait(&mutex_);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void ChildProcess::LimitFurtherMemory(int64_t bytes) {
  const rlim_t mapped_bytes = StatusBytes("VmSize:");
  const rlimit limit = {mapped_bytes + bytes, RLIM_INFINITY};
  CHECK_EQ(prlimit(pid_, RLIMIT_AS, &limit, nullptr), 0);
}

void ChildProcess::LiftMemoryLimit() {
  const rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
  CHECK_EQ(prlimit(pid_, RLIMIT_AS, &none, nullptr), 0);
}

std::string ChildProcess::output() const {
  MutexLock lock(&mutex_);
  return output_;
}

int64_t ChildProcess::StatusBytes(const std::string& field) const {
  std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
  std::string word;
  int64_t kilobytes = 0;
  while (status >> word) {
    if (word == field) status >> kilobytes;
  }
  CHECK_GT(kilobytes, 0);
  return kilobytes * 1024;
}

}  // namespace qgemm
