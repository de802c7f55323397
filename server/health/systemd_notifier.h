// SPDX-License-Identifier: Apache-2.0
//
// Tells systemd what the server does: the datagrams of sd_notify(3), written
// here so that the binary runs where libsystemd is absent.

#ifndef QGEMM_SERVER_HEALTH_SYSTEMD_NOTIFIER_H_
#define QGEMM_SERVER_HEALTH_SYSTEMD_NOTIFIER_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "server/health/health.h"

namespace qgemm {

// Values of the environment variables that systemd sets for a unit of
// Type=notify; empty = not set.
struct SystemdEnvironment {
  std::string notify_socket;  // NOTIFY_SOCKET: a path, or "@name"
  std::string watchdog_usec;  // WATCHDOG_USEC: time until systemd ends us
  std::string watchdog_pid;   // WATCHDOG_PID: process that is watched
};

// Sends nothing unless systemd asks for it. A datagram that cannot be sent is
// logged, once, and left out; none waits for longer than a second.
// Thread-safe.
class SystemdNotifier {
 public:
  // `clock` must outlive the notifier.
  // Errors: INVALID_ARGUMENT (a variable whose value cannot be right),
  // INTERNAL (no socket).
  static absl::StatusOr<std::unique_ptr<SystemdNotifier>> Create(
      const SystemdEnvironment& environment, const Clock* clock);

  // READY=1, with a STATUS= for people.
  void NotifyReady(absl::string_view status);
  // STOPPING=1.
  void NotifyStopping();

  // FDSTORE=1: systemd keeps a copy for the unit's next process, which finds it
  // under the name. FDSTOREREMOVE=1 ends that. False if it was not sent.
  bool StoreDescriptor(absl::string_view name, int descriptor);
  bool RemoveDescriptor(absl::string_view name);

  // Takes the server's health, to be called several times in half of the
  // watchdog's time: sends WATCHDOG=1 twice in it while the server is alive,
  // and STATUS= when the health has changed since the last report.
  void Report(const Health& health);

 private:
  SystemdNotifier(std::string socket, absl::Duration watchdog,
                  FileDescriptor fd, const Clock* clock);

  // True if sent, with a copy of the descriptor unless it is negative.
  bool Send(absl::string_view message, int descriptor = -1)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string socket_;            // empty = nobody listens
  const absl::Duration ping_interval_;  // infinite = no watchdog
  const FileDescriptor fd_;
  const Clock* const clock_;

  Mutex mutex_;
  absl::Time next_ping_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  HealthState reported_ ABSL_GUARDED_BY(mutex_) = HealthState::kServing;
  bool has_logged_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_HEALTH_SYSTEMD_NOTIFIER_H_
