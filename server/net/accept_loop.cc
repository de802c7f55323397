// SPDX-License-Identifier: Apache-2.0
//
// One thread that polls the listeners. It holds a spare descriptor: when there
// is no other, giving it up makes room to accept a connection and close it, so
// that its client hears of it.

#include "server/net/accept_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "server/net/socket_calls.h"

namespace qgemm {
namespace {

// The interval at which the loop looks which connections have ended.
constexpr absl::Duration kSweepInterval = absl::Seconds(1);

// The least time between two looks at messages in part; while the heap is
// large, which grows by 1 GB/s when calls are only their headers; and after
// connections were shut down, while gRPC frees what they held.
constexpr absl::Duration kGuardInterval = absl::Milliseconds(50);
constexpr absl::Duration kPressedInterval = absl::Milliseconds(10);
constexpr absl::Duration kRelief = absl::Milliseconds(100);

// A look walks all free blocks of the heap, for milliseconds after a flood: the
// next one is due after so many times what it took.
constexpr int kGuardPause = 20;

// Connections that one listener may bring before the next one's turn.
constexpr int kTurn = 64;

// After an error that the next accept would meet again.
constexpr absl::Duration kPause = absl::Milliseconds(10);

// Calls of a connection may be served shortly after its end; they ask who sent
// them for so long, or until so many others have ended.
constexpr absl::Duration kNameLinger = absl::Seconds(10);
constexpr size_t kMaxLingering = 4096;

std::vector<ListenAddress> AddressesOf(const std::vector<Listener>& listeners) {
  std::vector<ListenAddress> addresses;
  addresses.reserve(listeners.size());
  for (const Listener& listener : listeners) {
    addresses.push_back(listener.address());
  }
  return addresses;
}

FileDescriptor OpenReserve() {
  return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

FileDescriptor Accept(const Listener& listener, SocketAddress* remote) {
  remote->length = sizeof(remote->storage);
  return FileDescriptor(accept4(listener.fd(), remote->get(), &remote->length,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
}

bool LacksDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS ||
         error == ENOMEM;
}

// Errors of the connection that would have been next (man 2 accept).
bool IsOfOneConnection(int error) {
  return error == ECONNABORTED || error == EINTR || error == EPERM ||
         error == EPROTO || error == ENETDOWN || error == EHOSTDOWN ||
         error == ENETUNREACH || error == EHOSTUNREACH || error == ENONET ||
         error == ENOPROTOOPT || error == EOPNOTSUPP || error == ETIMEDOUT;
}

// Closes without the state in which TCP keeps an ended connection's ports.
void Drop(FileDescriptor fd) {
  const linger at_once = {1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

}  // namespace

AcceptLoop::AcceptLoop(std::vector<Listener> listeners,
                       const ConnectionLimits& limits, const Parts& parts,
                       HandOver hand_over)
    : parts_(parts),
      hand_over_(std::move(hand_over)),
      listeners_(std::move(listeners)),
      probe_(AddressesOf(listeners_), parts.clock),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      transit_notice_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      connections_(limits),
      guard_(limits.max_transit_bytes, AllocatedHeapBytes),
      reserve_(OpenReserve()) {
  CHECK(wake_.valid() && transit_notice_.valid())
      << "eventfd: " << std::strerror(errno);
}

AcceptLoop::~AcceptLoop() { Stop(); }

void AcceptLoop::Start() {
  SetTransitNotice(transit_notice_.get());
  thread_ = std::thread([this] { Run(); });
}

void AcceptLoop::Stop() {
  probe_.Stop();
  if (thread_.joinable()) {
    const uint64_t one = 1;
    CHECK_EQ(write(wake_.get(), &one, sizeof(one)), sizeof(one));
    thread_.join();
    SetTransitNotice(-1);
  }
  listeners_.clear();
}

void AcceptLoop::Run() {
  ReadNothingOnThisThread();
  std::vector<pollfd> waited = {{wake_.get(), POLLIN, 0},
                                {transit_notice_.get(), POLLIN, 0}};
  const size_t first = waited.size();
  for (const Listener& listener : listeners_) {
    waited.push_back({listener.fd(), POLLIN, 0});
  }
  while (true) {
    const bool paused = std::exchange(paused_, false);
    const bool guards = parts_.clock->Now() >= guard_due_;
    waited[1].fd = guards ? transit_notice_.get() : -1;
    absl::Duration timeout = paused ? kPause : kSweepInterval;
    if (!guards) timeout = std::min(timeout, kPressedInterval);
    const int ready =
        poll(waited.data(), paused ? first : waited.size(),
             static_cast<int>(absl::ToInt64Milliseconds(timeout)));
    if (ready > 0 && waited[0].revents != 0) return;
    if (ready > 0 && waited[1].revents != 0) GuardTransit();
    for (size_t i = first; ready > 0 && !paused && i < waited.size(); ++i) {
      if (waited[i].revents != 0) AcceptFrom(listeners_[i - first]);
    }
    if (parts_.clock->Now() - swept_ >= kSweepInterval) Sweep();
  }
}

void AcceptLoop::AcceptFrom(const Listener& listener) {
  for (int i = 0; i < kTurn; ++i) {
    SocketAddress remote;
    FileDescriptor fd = Accept(listener, &remote);
    if (fd.valid()) {
      Take(listener, std::move(fd), remote);
    } else if (errno == EAGAIN) {
      return;
    } else if (LacksDescriptors(errno)) {
      return RefuseForWantOfDescriptors(listener);
    } else if (!IsOfOneConnection(errno)) {
      EVENT(ERROR, "accept_failed")
          .With("listener", listener.address().ToString())
          .With("error", std::strerror(errno));
      paused_ = true;
      return;
    }
  }
}

void AcceptLoop::RefuseForWantOfDescriptors(const Listener& listener) {
  EVENT(WARNING, "connection_refused", "fd")
      .With("reason", "fd")
      .With("listener", listener.address().ToString())
      .With("error", std::strerror(errno));
  parts_.metrics->ConnectionRefused("fd");
  paused_ = true;
  reserve_.Reset();
  SocketAddress remote;
  Accept(listener, &remote).Reset();
  reserve_ = OpenReserve();
}

void AcceptLoop::Take(const Listener& listener, FileDescriptor fd,
                      const SocketAddress& remote) {
  if (probe_.Arrived(remote)) return Drop(std::move(fd));
  Connection connection;
  Peer peer = PeerOfSocket(fd.get(), remote, &owners_);
  const bool has_tls = listener.address().kind == ListenAddress::Kind::kTls;
  if (has_tls) peer.transport = "tls";
  if (!Admit(listener, peer)) return;
  ++accepted_;
  connection.inode = InodeOf(fd.get());
  peer.transit = TransitOf(fd.get());
  if (peer.transit != nullptr) {
    peer.transit->Begin({accepted_, std::hash<std::string>()(peer.identity)},
                        connection.inode, has_tls ? Wire::kTls : Wire::kPlain);
  }
  connection.peer = std::make_shared<const Peer>(std::move(peer));
  connection.fd = fd.Release();
  Enter(listener, &connection);
  parts_.metrics->ConnectionsChanged(connection.peer->transport, 1);
  connections_.Add(std::move(connection));
}

bool AcceptLoop::Admit(const Listener& listener, const Peer& peer) {
  const auto admission = connections_.Admit(
      peer.identity, parts_.clock->Now(),
      [this](const Connection& connection) { OnEnded(connection); });
  if (admission == ConnectionTable::Admission::kAdmitted) return true;
  const char* const reason =
      admission == ConnectionTable::Admission::kTotalReached ? "total" : "peer";
  EVENT(WARNING, "connection_refused", reason)
      .With("reason", reason)
      .With("listener", listener.address().ToString())
      .With("client", peer.identity)
      .With("address", peer.address);
  parts_.metrics->ConnectionRefused(reason);
  return false;
}

// Two TCP connections may have one address at the other end, of two listeners.
// The peer is known before the connection's first call.
void AcceptLoop::Enter(const Listener& listener, Connection* connection) {
  const std::string path = absl::StrCat("connection-", accepted_);
  connection->name = absl::StrCat("unix:", path);
  const ScopedPeerName name(connection->fd, path);
  parts_.peers->Insert(connection->name, connection->peer);
  hand_over_(listener, connection->fd);
  if (!name.asked()) {
    LOG(ERROR) << "gRPC did not ask for the name of a connection: all such "
                  "clients count as one";
  }
}

void AcceptLoop::OnEnded(const Connection& connection) {
  // The number may be another connection's by now.
  ConnectionTransit* const transit = connection.peer->transit;
  if (transit != nullptr && transit->inode() == connection.inode) {
    if (transit->is_cut() && !connection.condemned) {
      Report("calls before SETTINGS were acknowledged", connection);
    }
    if (InodeOf(connection.fd) == 0) transit->End();
  }
  connection.peer->clients->End();
  parts_.metrics->ConnectionsChanged(connection.peer->transport, -1);
  ended_.push_back({parts_.clock->Now(), connection.name, connection.peer});
}

void AcceptLoop::GuardTransit() {
  uint64_t notices = 0;
  [[maybe_unused]] const ssize_t count =
      read(transit_notice_.get(), &notices, sizeof(notices));
  std::vector<Connection*> open;
  std::vector<ConnectionTransit*> transits;
  bool ending = false;
  for (Connection& connection : connections_.connections()) {
    if (connection.condemned) {
      ending = ending || InodeOf(connection.fd) == connection.inode;
    } else if (connection.peer->transit != nullptr) {
      open.push_back(&connection);
      transits.push_back(connection.peer->transit);
    }
  }
  const absl::Time start = parts_.clock->Now();
  const std::vector<size_t> chosen = guard_.Choose(transits, ending);
  const absl::Time end = parts_.clock->Now();
  for (const size_t i : chosen) ShutDown(open[i]);
  const absl::Duration interval =
      guard_.is_pressed() ? kPressedInterval : kGuardInterval;
  guard_due_ = end + std::max(chosen.empty() ? interval : kRelief,
                              (end - start) * kGuardPause);
}

void AcceptLoop::Report(absl::string_view reason,
                        const Connection& connection) {
  EVENT(WARNING, "connection_closed", "transit")
      .With("reason", reason)
      .With("bytes", connection.peer->transit->bytes())
      .With("client", connection.peer->identity)
      .With("address", connection.peer->address);
  parts_.metrics->ConnectionRefused("transit");
}

// gRPC, which owns the descriptor, sees the end and closes it.
void AcceptLoop::ShutDown(Connection* connection) {
  Report("messages and calls in part", *connection);
  connection->condemned = true;
  connection->peer->transit->Cut();
  if (InodeOf(connection->fd) == connection->inode) {
    shutdown(connection->fd, SHUT_RDWR);
  }
}

void AcceptLoop::Sweep() {
  const absl::Time now = parts_.clock->Now();
  swept_ = now;
  connections_.RemoveEnded(
      now, [this](const Connection& connection) { OnEnded(connection); });
  while (!ended_.empty() && (now - ended_.front().time >= kNameLinger ||
                             ended_.size() > kMaxLingering)) {
    const EndedConnection& oldest = ended_.front();
    parts_.peers->Erase(oldest.name, oldest.peer.get());
    ended_.pop_front();
  }
}

}  // namespace qgemm
