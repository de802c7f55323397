// SPDX-License-Identifier: Apache-2.0
//
// A detached thread: nothing that hangs can keep it from its work.

#include "server/health/exit_guard.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"

namespace qgemm {
namespace {

// Waits follow the wall clock, which may be set: a look at the steady one ends
// each.
constexpr absl::Duration kLongestWait = absl::Seconds(1);

// True if a line can be written to stderr without waiting for its reader.
bool CanLog() {
  pollfd entry = {STDERR_FILENO, POLLOUT, 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & POLLOUT) != 0;
}

}  // namespace

struct ExitGuard::State {
  void Run() {
    const SteadyClock clock;
    MutexLock lock(&mutex);
    while (deadline == absl::InfiniteFuture()) changed.Wait(&mutex);
    while (clock.Now() < deadline) {
      changed.WaitFor(&mutex, std::min(deadline - clock.Now(), kLongestWait));
    }
    if (CanLog()) LOG(ERROR) << "the drain hangs: the process ends without it";
    _exit(exit_code);
  }

  Mutex mutex;
  CondVar changed;
  absl::Time deadline ABSL_GUARDED_BY(mutex) = absl::InfiniteFuture();
  int exit_code ABSL_GUARDED_BY(mutex) = 0;
};

ExitGuard::ExitGuard() : state_(new State) {
  std::thread([state = state_] { state->Run(); }).detach();
}

void ExitGuard::ExitAfter(absl::Duration timeout, int exit_code) {
  {
    MutexLock lock(&state_->mutex);
    state_->deadline = SteadyClock().Now() + timeout;
    state_->exit_code = exit_code;
  }
  state_->changed.SignalAll();
}

}  // namespace qgemm
