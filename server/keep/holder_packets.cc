// SPDX-License-Identifier: Apache-2.0

#include "server/keep/holder_packets.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/passed_descriptors.h"

namespace qgemm {
namespace {

constexpr size_t kMaxPacketBytes = 16 + kMaxDescriptorName;

void TakeDescriptor(msghdr* message, FileDescriptor* descriptor) {
  const cmsghdr* const header = CMSG_FIRSTHDR(message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET ||
      header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len < CMSG_LEN(sizeof(int))) {
    return;
  }
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof(number));
  descriptor->Reset(number);
}

}  // namespace

absl::Status SendHolderPacket(int socket, absl::string_view word,
                              absl::string_view name, int descriptor) {
  std::string packet(word);
  if (!name.empty()) absl::StrAppend(&packet, " ", name);
  iovec bytes = {packet.data(), packet.size()};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  PassedDescriptors passed;
  passed.AddTo(&message,
               absl::MakeConstSpan(&descriptor, descriptor < 0 ? 0 : 1));
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("send ", word, ": ", std::strerror(errno)));
}

absl::StatusOr<HolderPacket> ReceiveHolderPacket(int socket) {
  char buffer[kMaxPacketBytes];
  iovec bytes = {buffer, sizeof(buffer)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // the space holds two
  ssize_t size = 0;
  do {
    size = recvmsg(socket, &message, MSG_TRUNC | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  HolderPacket packet;
  if (size >= 0) TakeDescriptor(&message, &packet.descriptor);
  if (size <= 0) {
    return absl::UnavailableError(
        size == 0 ? "the other end hung up"
                  : absl::StrCat("receive: ", std::strerror(errno)));
  }
  if (static_cast<size_t>(size) > sizeof(buffer)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a packet of ", size, " bytes"));
  }
  const absl::string_view text(buffer, size);
  const size_t space = text.find(' ');
  packet.word = std::string(text.substr(0, space));
  if (space != absl::string_view::npos) {
    packet.name = std::string(text.substr(space + 1));
  }
  return packet;
}

absl::Status CheckHolderPath(const std::string& path) {
  if (!path.empty() && path[0] == '/' &&
      path.size() < sizeof(sockaddr_un::sun_path)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", path, "\" is not an absolute path of at most ",
                   sizeof(sockaddr_un::sun_path) - 1, " bytes"));
}

bool IsOwnUser(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

}  // namespace qgemm
