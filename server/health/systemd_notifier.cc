// SPDX-License-Identifier: Apache-2.0
//
// One datagram a message: lines NAME=VALUE.

#include "server/health/systemd_notifier.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "base/log.h"
#include "base/passed_descriptors.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// A datagram waits so long for room in systemd's socket.
constexpr timeval kSendTimeout = {1, 0};

absl::Status CheckSocketName(const std::string& name) {
  const bool has_kind = name[0] == '/' || name[0] == '@';
  if (has_kind && name.size() > 1 &&
      name.size() < sizeof(sockaddr_un::sun_path)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "NOTIFY_SOCKET = \"", name,
      "\" in the environment is neither an absolute path nor @name of at most ",
      sizeof(sockaddr_un::sun_path) - 1,
      " bytes; start the server without it, or by systemd"));
}

// Infinite if this process is not watched.
absl::StatusOr<absl::Duration> WatchdogTime(
    const SystemdEnvironment& environment) {
  if (environment.watchdog_usec.empty()) return absl::InfiniteDuration();
  int64_t microseconds = 0;
  if (!absl::SimpleAtoi(environment.watchdog_usec, &microseconds) ||
      microseconds <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("WATCHDOG_USEC = \"", environment.watchdog_usec,
                     "\" in the environment is no time in microseconds"));
  }
  if (!environment.watchdog_pid.empty() &&
      environment.watchdog_pid != absl::StrCat(getpid())) {
    return absl::InfiniteDuration();  // meant for the process that started us
  }
  return absl::Microseconds(microseconds);
}

std::string StatusLine(absl::string_view status) {
  return absl::StrCat("STATUS=", absl::StrReplaceAll(status, {{"\n", " "}}));
}

std::string StatusOf(const Health& health) {
  return health.reason.empty()
             ? std::string(NameOf(health.state))
             : absl::StrCat(NameOf(health.state), ": ", health.reason);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SystemdNotifier>> SystemdNotifier::Create(
    const SystemdEnvironment& environment, const Clock* clock) {
  const std::string& name = environment.notify_socket;
  if (name.empty()) {
    return std::unique_ptr<SystemdNotifier>(new SystemdNotifier(
        "", absl::InfiniteDuration(), FileDescriptor(), clock));
  }
  RETURN_IF_ERROR(CheckSocketName(name));
  ASSIGN_OR_RETURN(const absl::Duration watchdog, WatchdogTime(environment));
  FileDescriptor fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return absl::InternalError(
        absl::StrCat("socket for NOTIFY_SOCKET: ", strerror(errno)));
  }
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout,
             sizeof(kSendTimeout));
  return std::unique_ptr<SystemdNotifier>(
      new SystemdNotifier(name, watchdog, std::move(fd), clock));
}

SystemdNotifier::SystemdNotifier(std::string socket, absl::Duration watchdog,
                                 FileDescriptor fd, const Clock* clock)
    : socket_(std::move(socket)),
      ping_interval_(watchdog / 2),
      fd_(std::move(fd)),
      clock_(clock) {}

void SystemdNotifier::NotifyReady(absl::string_view status) {
  MutexLock lock(&mutex_);
  Send(absl::StrCat("READY=1\n", StatusLine(status)));
}

void SystemdNotifier::NotifyStopping() {
  MutexLock lock(&mutex_);
  Send("STOPPING=1");
}

void SystemdNotifier::Report(const Health& health) {
  MutexLock lock(&mutex_);
  if (health.state != reported_) {
    reported_ = health.state;
    Send(StatusLine(StatusOf(health)));
  }
  const absl::Time now = clock_->Now();
  if (ping_interval_ == absl::InfiniteDuration() || !health.is_live() ||
      now < next_ping_) {
    return;
  }
  if (Send("WATCHDOG=1")) next_ping_ = now + ping_interval_;
}

// Not watched for an end of their own: systemd would drop them by it.
bool SystemdNotifier::StoreDescriptor(absl::string_view name, int descriptor) {
  MutexLock lock(&mutex_);
  return Send(absl::StrCat("FDSTORE=1\nFDPOLL=0\nFDNAME=", name), descriptor);
}

bool SystemdNotifier::RemoveDescriptor(absl::string_view name) {
  MutexLock lock(&mutex_);
  return Send(absl::StrCat("FDSTOREREMOVE=1\nFDNAME=", name));
}

bool SystemdNotifier::Send(absl::string_view message, int descriptor) {
  if (socket_.empty()) return false;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (socket_[0] == '@') address.sun_path[0] = '\0';
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  iovec bytes = {const_cast<char*>(message.data()), message.size()};
  msghdr datagram = {};
  datagram.msg_name = &address;
  datagram.msg_namelen = length;
  datagram.msg_iov = &bytes;
  datagram.msg_iovlen = 1;
  PassedDescriptors passed;
  passed.AddTo(&datagram,
               absl::MakeConstSpan(&descriptor, descriptor < 0 ? 0 : 1));
  if (sendmsg(fd_.get(), &datagram, MSG_NOSIGNAL) >= 0) {
    return true;
  }
  if (!std::exchange(has_logged_, true)) {
    LOG(WARNING) << "notify systemd at " << socket_ << ": " << strerror(errno);
  }
  return false;
}

}  // namespace qgemm
