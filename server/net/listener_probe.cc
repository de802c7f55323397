// SPDX-License-Identifier: Apache-2.0

#include "server/net/listener_probe.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);

// The accept loop takes microseconds; only one that is stuck takes longer.
constexpr absl::Duration kTimeout = absl::Seconds(2);

// The address with which a probe to `target` binds its own end: any port, and
// any name of the abstract ones, which the kernel chooses.
SocketAddress AnyEnd(const SocketAddress& target) {
  SocketAddress end = target;
  if (end.family() == AF_INET) {
    reinterpret_cast<sockaddr_in&>(end.storage).sin_port = 0;
  } else if (end.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(end.storage).sin6_port = 0;
  } else {
    end.length = sizeof(sa_family_t);
  }
  return end;
}

}  // namespace

ListenerProbe::ListenerProbe(const std::vector<ListenAddress>& addresses,
                             const Clock* clock)
    : clock_(clock) {
  for (const ListenAddress& address : addresses) {
    const auto end = ToSocketAddress(address);
    if (!end.ok()) continue;  // no socket listens there either
    Target target;
    target.address = address;
    target.socket_address = *end;
    targets_.push_back(std::move(target));
  }
}

absl::Status ListenerProbe::Check() {
  const absl::Time now = clock_->Now();
  absl::Status status;
  MutexLock lock(&mutex_);
  for (Target& target : targets_) status.Update(Advance(&target, now));
  return status;
}

void ListenerProbe::Stop() {
  MutexLock lock(&mutex_);
  targets_.clear();
}

bool ListenerProbe::Arrived(const SocketAddress& remote) {
  MutexLock lock(&mutex_);
  for (Target& target : targets_) {
    if (!target.fd.valid() || !(target.own == remote)) continue;
    target.waiting = false;
    return true;
  }
  return false;
}

absl::Status ListenerProbe::Advance(Target* target, absl::Time now) {
  if (now >= target->due) {
    target->fd.Reset();  // the probe before; one that was lost is sent again
    if (!target->waiting) target->started = now;
    target->waiting = true;
    target->due = now + kInterval;
  }
  if (!target->waiting) return absl::OkStatus();
  if (!target->fd.valid() && Send(target)) target->failure.clear();
  if (now - target->started < kTimeout) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the listener at ", target->address.ToString(),
                   " accepts no connections for ",
                   absl::FormatDuration(now - target->started),
                   target->failure.empty() ? "" : ": ", target->failure));
}

bool ListenerProbe::Send(Target* target) {
  const SocketAddress& to = target->socket_address;
  target->own = AnyEnd(to);
  target->fd.Reset(
      socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  SocketAddress& own = target->own;
  bool sent =
      target->fd.valid() && bind(target->fd.get(), own.get(), own.length) == 0;
  own.length = sizeof(own.storage);
  sent = sent && getsockname(target->fd.get(), own.get(), &own.length) == 0 &&
         (connect(target->fd.get(), to.get(), to.length) == 0 ||
          errno == EINPROGRESS);
  if (sent) return true;
  target->failure = std::strerror(errno);
  target->fd.Reset();  // the next Check tries again
  return false;
}

}  // namespace qgemm
