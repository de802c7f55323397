// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/keep/holder_packets.h"
#include "server/keep/holders.h"

namespace qgemm {
namespace {

constexpr timeval kPatience = {2, 0};  // of one packet
// A server that was killed closes its connection when the kernel has taken its
// memory apart.
constexpr absl::Duration kElderPatience = absl::Seconds(20);
constexpr absl::Duration kRetryInterval = absl::Milliseconds(20);
constexpr absl::Duration kWatchInterval = absl::Seconds(1);

FileDescriptor CopyOf(int descriptor) {
  return FileDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

bool HasHungUp(int socket) {
  char byte;
  const ssize_t size = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

HolderClient::HolderClient(std::string path) : path_(std::move(path)) {}

HolderClient::~HolderClient() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.SignalAll();
  if (watcher_.joinable()) watcher_.join();
}

absl::StatusOr<std::vector<HeldDescriptor>> HolderClient::Claim() {
  const absl::Time end = absl::Now() + kElderPatience;
  while (true) {
    MutexLock lock(&mutex_);
    auto held = Connect();
    if (held.ok()) {
      for (const HeldDescriptor& each : *held) {
        stored_[each.name] = CopyOf(each.descriptor.get());
      }
      watcher_ = std::thread([this] { Watch(); });
      return held;
    }
    if (!absl::IsAborted(held.status())) return held;
    if (absl::Now() >= end) {
      return absl::UnavailableError(absl::StrCat(
          "the holder at ", path_, " has another server connected to it"));
    }
    stopped_.WaitFor(&mutex_, kRetryInterval);
  }
}

// Errors: Claim's, ABORTED (another server is connected).
absl::StatusOr<std::vector<HeldDescriptor>> HolderClient::Connect() {
  RETURN_IF_ERROR(CheckHolderPath(path_));
  FileDescriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (!connection.valid() ||
      connect(connection.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "connect to the holder at ", path_, ": ", std::strerror(errno)));
  }
  if (!IsOwnUser(connection.get())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the holder at ", path_, " is not run by the server's user"));
  }
  for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO}) {
    setsockopt(connection.get(), SOL_SOCKET, option, &kPatience,
               sizeof(kPatience));
  }
  RETURN_IF_ERROR(SendHolderPacket(connection.get(), kClaim));
  std::vector<HeldDescriptor> held;
  while (true) {
    ASSIGN_OR_RETURN(HolderPacket packet,
                     ReceiveHolderPacket(connection.get()));
    if (packet.word == kEnd) break;
    if (packet.word == kBusy) return absl::AbortedError("another server");
    if (packet.word != kHeld || !packet.descriptor.valid()) {
      return absl::UnavailableError(
          absl::StrCat("the holder at ", path_, " answered ", packet.word));
    }
    held.push_back({std::move(packet.name), std::move(packet.descriptor)});
  }
  socket_ = std::move(connection);
  return held;
}

absl::Status HolderClient::Store(const std::string& name, int descriptor) {
  MutexLock lock(&mutex_);
  stored_[name] = CopyOf(descriptor);
  return Send(kStore, name, descriptor);
}

absl::Status HolderClient::Drop(const std::string& name) {
  MutexLock lock(&mutex_);
  stored_.erase(name);
  return Send(kDrop, name, -1);
}

absl::Status HolderClient::Send(absl::string_view word, const std::string& name,
                                int descriptor) {
  if (!socket_.valid()) {
    return absl::UnavailableError("the holder is gone; a new one gets it");
  }
  const absl::Status sent =
      SendHolderPacket(socket_.get(), word, name, descriptor);
  if (!sent.ok()) socket_.Reset();
  return sent;
}

absl::Status HolderClient::StoreAgain() {
  ASSIGN_OR_RETURN(const auto held, Connect());
  for (const HeldDescriptor& each : held) {
    if (stored_.count(each.name) == 0)
      RETURN_IF_ERROR(Send(kDrop, each.name, -1));
  }
  for (const auto& [name, descriptor] : stored_) {
    RETURN_IF_ERROR(Send(kStore, name, descriptor.get()));
  }
  return absl::OkStatus();
}

void HolderClient::Watch() {
  MutexLock lock(&mutex_);
  bool is_lost = false;
  while (!stopping_) {
    if (socket_.valid() && HasHungUp(socket_.get())) socket_.Reset();
    if (!socket_.valid()) {
      const absl::Status stored = StoreAgain();
      if (stored.ok()) {
        EVENT(INFO, "holder_found").With("descriptors", stored_.size());
      } else if (!std::exchange(is_lost, true)) {
        EVENT(WARNING, "holder_lost").With("error", stored.message());
      }
    }
    if (socket_.valid()) is_lost = false;
    stopped_.WaitFor(&mutex_, kWatchInterval);
  }
}

}  // namespace qgemm
