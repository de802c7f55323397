// SPDX-License-Identifier: Apache-2.0
//
// qgemm_server: flags in, signals in, exit code out (docs/operations.md).

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <iostream>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "server/listen.h"
#include "server/server.h"
#include "server/server_flags.h"

namespace qgemm {
namespace {

// Messages up to a few MiB reuse the heap; larger blocks, layers among them,
// are mapped, so that their memory goes back to the system when they do. Few
// arenas and a low trim bound keep the heap itself from growing.
void ConfigureMalloc() {
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 32 << 20);
  mallopt(M_ARENA_MAX, 4);
}

// A distribution's Abseil checks the order of gRPC's locks at every lock, under
// one lock for the whole process: a quarter of all CPU time on 16 cores.
void SkipLockOrderChecks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

// Has each completion queue's thread wait for its own connections. By gRPC's
// default one thread waits for those of the whole process and wakes the others,
// which costs a request a third of its time; it is better from some 150
// connections a queue on, which all are looked at each time here. What the
// environment says goes.
void WaitByQueue() {
  constexpr int kOverwrite = 0;
  setenv("GRPC_POLL_STRATEGY", "poll", kOverwrite);
}

// Blocks the signals that end the server in this thread and those that it
// starts.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// A second Ctrl-C ends the process at once.
void UnblockInterrupt() {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
}

// What saying goodbye takes at the most once the queue is empty: clients that
// do not hang up, and the metrics endpoint's threads.
constexpr absl::Duration kGoodbye = absl::Seconds(4);

// When requests that still wait are refused, so that the process ends within
// the timeout.
absl::Time QueueDeadline(absl::Duration drain_timeout) {
  return absl::Now() + drain_timeout - std::min(kGoodbye, drain_timeout / 2);
}

int Fail(const absl::Status& status) {
  std::cerr << "qgemm_server: " << status.message() << std::endl;
  return 1;
}

int Run(int argc, char** argv) {
  const absl::StatusOr<CommandLine> line = ParseServerFlags(argc, argv);
  if (!line.ok()) return Fail(line.status());
  ConfigureMalloc();
  SkipLockOrderChecks();
  WaitByQueue();
  signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = BlockEndSignals();

  const auto server = Server::Create(line->server);
  if (!server.ok()) return Fail(server.status());
  if (!line->port_file.empty()) {
    const absl::Status written =
        WritePortFile(line->port_file, (*server)->ports());
    if (!written.ok()) return Fail(written);
  }
  for (const std::string& address : (*server)->addresses()) {
    LOG(INFO) << "serving on " << address;
  }
  if ((*server)->metrics_port() != 0) {
    LOG(INFO) << "metrics on port " << (*server)->metrics_port();
  }

  int received = 0;
  sigwait(&signals, &received);
  UnblockInterrupt();
  LOG(INFO) << strsignal(received) << ": draining for at most "
            << line->drain_timeout;
  (*server)->Drain(QueueDeadline(line->drain_timeout));
  LOG(INFO) << "drained";
  return 0;
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) { return qgemm::Run(argc, argv); }
