// SPDX-License-Identifier: Apache-2.0

#include "server/keep/holder.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/keep/holder_packets.h"

namespace qgemm {
namespace {

constexpr size_t kMaxConnections = 16;
constexpr timeval kPatience = {2, 0};  // of an answer's packet

absl::Status SystemError(absl::string_view operation, const std::string& path) {
  return absl::InternalError(
      absl::StrCat(operation, " ", path, ": ", std::strerror(errno)));
}

FileDescriptor NewSocket() {
  return FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

}  // namespace

absl::StatusOr<Holder> Holder::Listen(const std::string& path,
                                      absl::Duration hold, const Clock* clock) {
  RETURN_IF_ERROR(CheckHolderPath(path));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  const FileDescriptor probe = NewSocket();
  if (connect(probe.get(), name, sizeof(address)) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another holder listens at ", path));
  }
  if (errno == ECONNREFUSED) unlink(path.c_str());
  FileDescriptor listener = NewSocket();
  const mode_t umask_before = umask(0177);
  const bool is_bound =
      listener.valid() && bind(listener.get(), name, sizeof(address)) == 0;
  umask(umask_before);
  if (!is_bound || listen(listener.get(), kMaxConnections) != 0) {
    return SystemError("listen at", path);
  }
  return Holder(std::move(listener), hold, clock);
}

void Holder::ServeOnce(absl::Duration at_most) {
  const absl::Duration left = table_->deadline() - clock_->Now();
  const absl::Duration wait =
      std::clamp(left, absl::ZeroDuration(), std::min(at_most, absl::Hours(1)));
  std::vector<pollfd> waiting = {{listener_.get(), POLLIN, 0}};
  for (const FileDescriptor& each : connections_) {
    waiting.push_back({each.get(), POLLIN, 0});
  }
  const int64_t milliseconds =
      absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)));
  poll(waiting.data(), waiting.size(), static_cast<int>(milliseconds));
  for (size_t i = waiting.size() - 1; i > 0; --i) {
    if (waiting[i].revents == 0 || Serve(waiting[i].fd)) continue;
    table_->Leave(waiting[i].fd, clock_->Now());
    connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(i - 1));
  }
  if (waiting[0].revents != 0) Accept();
  const size_t held = table_->held().size();
  if (table_->DropIfDue(clock_->Now())) {
    EVENT(WARNING, "holder_dropped").With("descriptors", held);
  }
}

void Holder::Accept() {
  FileDescriptor connection(
      accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid() || connections_.size() >= kMaxConnections ||
      !IsOwnUser(connection.get())) {
    return;
  }
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience,
             sizeof(kPatience));
  connections_.push_back(std::move(connection));
}

bool Holder::Serve(int connection) {
  absl::StatusOr<HolderPacket> packet = ReceiveHolderPacket(connection);
  if (!packet.ok()) return false;
  if (packet->word == kClaim) return AnswerClaim(connection);
  if (packet->word == kStore) {
    return table_->Store(connection, packet->name,
                         std::move(packet->descriptor));
  }
  return packet->word == kDrop && table_->Drop(connection, packet->name);
}

bool Holder::AnswerClaim(int connection) {
  if (!table_->Claim(connection)) {
    return SendHolderPacket(connection, kBusy).ok();
  }
  for (const auto& [name, descriptor] : table_->held()) {
    if (!SendHolderPacket(connection, kHeld, name, descriptor.get()).ok()) {
      return false;
    }
  }
  EVENT(INFO, "holder_claimed").With("descriptors", held());
  return SendHolderPacket(connection, kEnd).ok();
}

}  // namespace qgemm
