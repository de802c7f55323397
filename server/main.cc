// SPDX-License-Identifier: Apache-2.0
//
// Entry point of qgemm_server: flags, signals and exit codes
// (docs/operations.md).

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/housekeeping.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "flags/command_line.h"
#include "rpc/library_log.h"
#include "server/health/exit_guard.h"
#include "server/health/systemd_notifier.h"
#include "server/keep/holders.h"
#include "server/net/descriptor_limit.h"
#include "server/net/listen.h"
#include "server/net/socket_calls.h"
#include "server/server.h"
#include "server/server_options.h"

namespace qgemm {
namespace {

// Messages up to a few MiB reuse the heap. Larger blocks, layers among them,
// are mapped, so that freeing them returns their memory to the system. Few
// arenas and a low trim threshold keep the heap itself from growing.
void ConfigureMalloc() {
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 32 << 20);
  mallopt(M_ARENA_MAX, 4);
}

// Turns off a check of the order of gRPC's locks that a distribution's Abseil
// makes at every lock, under one lock for the whole process: a quarter of all
// CPU time on 16 cores.
void SkipLockOrderChecks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

// Makes each completion queue's thread poll its own connections. By gRPC's
// default one thread polls those of the whole process and wakes the others,
// which costs a request a third of its time, but is faster from some 150
// connections a queue on, since poll() visits every connection each time.
// GRPC_POLL_STRATEGY in the environment overrides this.
void WaitByQueue() {
  constexpr int kOverwrite = 0;
  setenv("GRPC_POLL_STRATEGY", "poll", kOverwrite);
  TakeTurnsInReading(absl::string_view(getenv("GRPC_POLL_STRATEGY")) == "poll");
}

// Blocks SIGTERM and SIGINT in this thread and those that it starts.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Lets a second Ctrl-C end the process at once.
void UnblockInterrupt() {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
}

// Upper bound for shutdown after the queue has drained: clients that do not
// close their connections, and the metrics endpoint's threads.
constexpr absl::Duration kMaxShutdownTime = absl::Seconds(4);

// Returns the time at which waiting requests are refused, so that the process
// ends within the timeout.
absl::Time QueueDeadline(absl::Duration drain_timeout) {
  return SystemClock().Now() + drain_timeout -
         std::min(kMaxShutdownTime, drain_timeout / 2);
}

// Exit codes beside 0 and that of a wrong command line.
constexpr int kExitCannotStart = 1;
constexpr int kExitFailed = 3;      // the device is lost, or a launch hangs
constexpr int kExitDrainHangs = 4;  // what else hangs

int Fail(const absl::Status& status) {
  std::cerr << "qgemm_server: " << status.message() << std::endl;
  return kExitCannotStart;
}

// A drain of a server that works ends before that, since what it leaves for the
// shutdown is as long.
absl::Duration LongestDrain(absl::Duration drain_timeout) {
  return std::max(drain_timeout, kMaxShutdownTime + absl::Seconds(1));
}

void ConfigureProcess(const ServerOptions& options) {
  SetLogFormat(options.log_format);
  LogLibraries();
  ConfigureMalloc();
  SkipLockOrderChecks();
  WaitByQueue();
  RaiseDescriptorLimit();
  signal(SIGPIPE, SIG_IGN);
  // A write beyond the limit of file sizes fails, and does no more.
  signal(SIGXFSZ, SIG_IGN);
}

void LogStart(const CLI::App& app, const Server& server) {
  const BackendDescription backend = server.backend();
  EVENT(INFO, "started")
      .With("version", kVersion)
      .With("backend", backend.name)
      .With("device", backend.device)
      .With("flags", flags::ChangedOptions(app));
}

// Tells where the server listens: the port file's readers, then the log's.
absl::Status AnnouncePorts(const std::string& port_file, const Server& server) {
  if (!port_file.empty()) {
    RETURN_IF_ERROR(WritePortFile(port_file, server.ports()));
  }
  for (const std::string& address : server.addresses()) {
    LOG(INFO) << "serving on " << address;
  }
  if (server.metrics_port() != 0) {
    LOG(INFO) << "metrics on port " << server.metrics_port();
  }
  return absl::OkStatus();
}

// Serves on for so long, while health says NOT_SERVING, or until another
// SIGTERM comes: of the operator, or because the server has failed.
void LetBalancersLeave(absl::Duration delay, Server* server) {
  server->AnnounceDrain();
  sigset_t terminate;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  const timespec timeout = absl::ToTimespec(delay);
  while (sigtimedwait(&terminate, nullptr, &timeout) < 0 && errno == EINTR) {
  }
}

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

SystemdEnvironment ReadSystemdEnvironment() {
  return {Variable("NOTIFY_SOCKET"), Variable("WATCHDOG_USEC"),
          Variable("WATCHDOG_PID")};
}

// The holder of --keep_memory; null without it. What systemd has kept is given
// up unless it is that holder.
absl::StatusOr<std::unique_ptr<DescriptorHolder>> OpenHolder(
    const std::string& keep_memory, SystemdNotifier* systemd) {
  ASSIGN_OR_RETURN(
      std::vector<HeldDescriptor> passed,
      TakeListenDescriptors({Variable("LISTEN_PID"), Variable("LISTEN_FDS"),
                             Variable("LISTEN_FDNAMES")}));
  if (keep_memory == "systemd") {
    return std::make_unique<SystemdHolder>(std::move(passed), systemd);
  }
  for (const HeldDescriptor& each : passed) {
    systemd->RemoveDescriptor(each.name);
  }
  if (keep_memory.empty()) return nullptr;
  return std::make_unique<HolderClient>(keep_memory);
}

// The server reports its health to systemd from here on.
void AnnounceToSystemd(Server* server, SystemdNotifier* systemd) {
  systemd->NotifyReady(
      absl::StrCat("serving on ", absl::StrJoin(server->addresses(), ", ")));
  server->ObserveHealth(
      [systemd](const Health& health) { systemd->Report(health); });
}

// Waits for a signal, or the server's failure, and drains the server. The guard
// ends the process if the drain hangs. Returns the exit code.
int ServeUntilSignal(const ServerOptions& options, const sigset_t& signals,
                     ExitGuard* guard, SystemdNotifier* systemd,
                     Server* server) {
  if (options.exit_on_gpu_failure) {
    server->NotifyOfFailure([] { kill(getpid(), SIGTERM); });
  }
  int received = 0;
  sigwait(&signals, &received);
  const bool has_failed = !server->failure().ok();
  const absl::Duration delay =
      has_failed ? absl::ZeroDuration() : options.drain_delay;
  guard->ExitAfter(delay + LongestDrain(options.drain_timeout),
                   has_failed ? kExitFailed : kExitDrainHangs);
  UnblockInterrupt();
  systemd->NotifyStopping();
  EVENT(INFO, "draining")
      .With("cause", has_failed ? "failure" : strsignal(received))
      .With("delay", delay)
      .With("timeout", options.drain_timeout);
  if (delay > absl::ZeroDuration()) LetBalancersLeave(delay, server);
  server->Drain(QueueDeadline(options.drain_timeout));
  EVENT(INFO, "drained");
  LogSuppressedLines(absl::ZeroDuration());
  return server->failure().ok() ? 0 : kExitFailed;
}

int Run(int argc, char** argv) {
  ServerOptions options;
  const std::unique_ptr<CLI::App> app = MakeServerApp(&options);
  const std::optional<int> wrong = flags::Parse(app.get(), argc, argv);
  if (wrong.has_value()) return *wrong;
  ConfigureProcess(options);
  const sigset_t signals = BlockEndSignals();
  ExitGuard guard;
  const SystemClock clock;
  const auto systemd =
      SystemdNotifier::Create(ReadSystemdEnvironment(), &clock);
  if (!systemd.ok()) return Fail(systemd.status());

  auto holder = OpenHolder(options.keep_memory, systemd->get());
  if (!holder.ok()) return Fail(holder.status());

  const auto server = Server::Create(options, *std::move(holder));
  if (!server.ok()) return Fail(server.status());
  LogStart(*app, **server);
  const Housekeeping housekeeping;
  const absl::Status announced = AnnouncePorts(options.port_file, **server);
  if (!announced.ok()) return Fail(announced);
  AnnounceToSystemd(server->get(), systemd->get());
  const int code =
      ServeUntilSignal(options, signals, &guard, systemd->get(), server->get());
  // All that has to be done is done. A destructor may wait for ever: for a lost
  // device, or, inside gRPC, for a thread that the system refused to start.
  _exit(code);
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) { return qgemm::Run(argc, argv); }
