// SPDX-License-Identifier: Apache-2.0

#include "server/lane/lane_control.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/net/peer_identity.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

// Ids that epoll tells; connections' are higher.
constexpr uint64_t kListenerId = 0;
constexpr uint64_t kWakeId = 1;

// A client says hello as soon as it has connected.
constexpr absl::Duration kHelloTimeout = absl::Seconds(5);

// While somebody has not, or an ended lane has requests, or there were no
// descriptors to accept with.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(20);

// Packets that one client may bring before the next one's turn.
constexpr int kTurn = 16;

}  // namespace

LaneControl::LaneControl(Listener listener, const LaneLimits& limits,
                         const LaneParts& parts, LaneRequests* requests,
                         LanePoller* poller)
    : parts_(parts),
      gate_(parts.access, parts.peers, parts.metrics),
      requests_(requests),
      poller_(poller),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      listener_(std::make_unique<Listener>(std::move(listener))),
      quota_(limits),
      last_id_(kWakeId) {
  CHECK(epoll_.valid() && wake_.valid()) << std::strerror(errno);
  Watch(wake_.get(), kWakeId);
  Watch(listener_->fd(), kListenerId);
}

LaneControl::~LaneControl() { Stop(Draining()); }

void LaneControl::Start() {
  thread_ = std::thread([this] { Run(); });
}

void LaneControl::Refuse() {
  refuses_.store(true);
  Notify();
}

void LaneControl::Stop(const absl::Status& reason) {
  if (!thread_.joinable()) return;
  stop_reason_ = reason;
  stopping_.store(true);
  Notify();
  thread_.join();
}

void LaneControl::Notify() {
  const uint64_t one = 1;
  CHECK_EQ(write(wake_.get(), &one, sizeof(one)),
           static_cast<ssize_t>(sizeof(one)));
}

void LaneControl::Watch(int fd, uint64_t id) const {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = id;
  CHECK_EQ(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), 0)
      << std::strerror(errno);
}

void LaneControl::Run() {
  std::array<epoll_event, 16> events;
  // Looked at before each wait too: one read may take the notices of Refuse and
  // of Stop.
  while (!stopping_.load()) {
    const int timeout =
        NeedsSweeps()
            ? static_cast<int>(absl::ToInt64Milliseconds(kSweepInterval))
            : -1;
    const int ready =
        epoll_wait(epoll_.get(), events.data(), events.size(), timeout);
    if (stopping_.load()) break;
    for (int i = 0; i < ready; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kListenerId) {
        AcceptAll();
      } else if (id == kWakeId) {
        uint64_t notices = 0;
        [[maybe_unused]] const ssize_t count =
            read(wake_.get(), &notices, sizeof(notices));
        if (refuses_.load()) listener_.reset();
        EndBroken();
      } else {
        OnReadable(id);
      }
    }
    Sweep();
  }
  listener_.reset();
  while (!connections_.empty()) {
    End(connections_.begin()->first, "drain", stop_reason_);
  }
  ended_.clear();
}

void LaneControl::AcceptAll() {
  for (int i = 0; i < kTurn && listener_ != nullptr; ++i) {
    FileDescriptor socket(accept4(listener_->fd(), nullptr, nullptr,
                                  SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      Enter(std::move(socket));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      EVENT(ERROR, "accept_failed")
          .With("listener", listener_->address().ToString())
          .With("error", std::strerror(errno));
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_->fd(), nullptr);
      paused_ = true;
      return;
    }
  }
}

void LaneControl::Enter(FileDescriptor socket) {
  SocketAddress remote;
  remote.storage.ss_family = AF_UNIX;
  Peer peer = PeerOfSocket(socket.get(), remote, nullptr);
  const uint64_t id = ++last_id_;
  peer.transport = "lane";
  peer.address = absl::StrCat("lane ", id - kWakeId, ", ", peer.address);
  Connection connection;
  const absl::Status room = quota_.Take(peer.identity, 0);
  if (!room.ok()) {
    parts_.metrics->ConnectionRefused("lane");
    (void)SendPacket(
        socket.get(),
        WritePacket(lane::Accept(), lane::MessageKind::kAccept, 0, room));
    return;
  }
  connection.counted = Counted{peer.identity, 0};
  connection.name = absl::StrCat("lane-", id);
  connection.peer = std::make_shared<const Peer>(std::move(peer));
  parts_.peers->Insert(connection.name, connection.peer);
  connection.hello_due = parts_.clock->Now() + kHelloTimeout;
  connection.socket = std::move(socket);
  Watch(connection.socket.get(), id);
  connections_.emplace(id, std::move(connection));
}

void LaneControl::OnReadable(uint64_t id) {
  char buffer[lane::kMaxPacketBytes];
  for (int i = 0; i < kTurn; ++i) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Connection* const connection = &found->second;
    const absl::StatusOr<ReceivedPacket> received =
        ReceivePacket(connection->socket.get(), absl::MakeSpan(buffer));
    if (!received.ok()) return End(id, "packet", received.status());
    if (received->has_ended) return End(id, "hangup", absl::OkStatus());
    if (!received->packet.has_value()) return;
    const absl::Status handled = Handle(*received, connection);
    if (handled.ok()) continue;
    if (connection->lane == nullptr) return End(id, "refused", handled);
    return End(id, absl::IsUnavailable(handled) ? "unread" : "packet", handled);
  }
}

absl::Status LaneControl::Handle(const ReceivedPacket& received,
                                 Connection* connection) {
  ASSIGN_OR_RETURN(const ClientPacket parsed, ParsePacket(*received.packet));
  const auto* const hello = std::get_if<HelloPacket>(&parsed);
  if ((hello != nullptr) == (connection->lane != nullptr)) {
    return absl::InvalidArgumentError(
        "a client says hello (kind = 1) first, and once");
  }
  if (hello != nullptr) return OpenLane(*hello, connection);
  if (const auto* const open = std::get_if<OpenPacket>(&parsed)) {
    return OpenHandle(*open, connection);
  }
  if (const auto* const attach = std::get_if<AttachPacket>(&parsed)) {
    return AttachMemory(*attach, received.descriptor, connection);
  }
  return CloseHandle(std::get<ClosePacket>(parsed), connection);
}

bool LaneControl::NeedsSweeps() const {
  return paused_ || !ended_.empty() ||
         std::any_of(
             connections_.begin(), connections_.end(),
             [](const auto& each) { return each.second.lane == nullptr; });
}

void LaneControl::Sweep() {
  const absl::Time now = parts_.clock->Now();
  std::vector<uint64_t> silent;
  for (const auto& [id, connection] : connections_) {
    if (connection.lane == nullptr && now >= connection.hello_due) {
      silent.push_back(id);
    }
  }
  for (const uint64_t id : silent) {
    End(id, "packet",
        absl::DeadlineExceededError(absl::StrCat(
            "no hello came within ", absl::FormatDuration(kHelloTimeout))));
  }
  // The last reference goes here, not on a thread that ends launches.
  if (!ended_.empty()) requests_->ReleaseEnded();
  for (auto ended = ended_.begin(); ended != ended_.end();) {
    if (ended->lane.use_count() > 1) {
      ++ended;
      continue;
    }
    const Counted& counted = ended->counted;
    quota_.Return(counted.identity, counted.bytes);
    parts_.metrics->LaneBytesChanged(-counted.bytes);
    ended = ended_.erase(ended);
  }
  if (std::exchange(paused_, false) && listener_ != nullptr) {
    Watch(listener_->fd(), kListenerId);
  }
}

void LaneControl::EndBroken() {
  std::vector<uint64_t> broken;
  for (const auto& [id, connection] : connections_) {
    if (connection.lane != nullptr && connection.lane->is_broken()) {
      broken.push_back(id);
    }
  }
  for (const uint64_t id : broken) {
    const absl::Status violation = connections_[id].lane->violation();
    End(id, absl::IsFailedPrecondition(violation) ? "slot" : "index",
        violation);
  }
}

void LaneControl::End(uint64_t id, absl::string_view reason,
                      const absl::Status& status) {
  const auto found = connections_.find(id);
  Connection connection = std::move(found->second);
  connections_.erase(found);
  if (!status.ok()) {
    EVENT(WARNING, "lane_ended", reason)
        .With("reason", reason)
        .With("error", status.message())
        .With("client", connection.peer->identity)
        .With("address", connection.peer->address);
    (void)SendPacket(
        connection.socket.get(),
        WritePacket(lane::End(), lane::MessageKind::kEnd, 0, status));
  }
  if (connection.lane == nullptr) {
    Uncount(&connection);
  } else {
    const std::shared_ptr<Lane>& lane = connection.lane;
    poller_->Remove(lane);
    // Whoever broke the protocol is not waited for either.
    if (reason != "drain") lane->SetClientLeft();
    lane->completions().End(status.ok() ? absl::StatusCode::kUnavailable
                                        : status.code());
    parts_.metrics->LaneEnded(reason);
    parts_.metrics->ConnectionsChanged("lane", -1);
    ended_.push_back(
        {std::move(connection.lane), *std::move(connection.counted)});
  }
  connection.peer->clients->End();
  parts_.peers->Erase(connection.name, connection.peer.get());
}

}  // namespace qgemm
