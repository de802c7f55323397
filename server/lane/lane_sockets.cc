// SPDX-License-Identifier: Apache-2.0

#include "server/lane/lane_sockets.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/passed_descriptors.h"

namespace qgemm {
namespace {

// Takes a descriptor that came with the message.
FileDescriptor DescriptorOf(msghdr* message) {
  FileDescriptor descriptor;
  const cmsghdr* const header = CMSG_FIRSTHDR(message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET ||
      header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len < CMSG_LEN(sizeof(int))) {
    return descriptor;
  }
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof(number));
  descriptor.Reset(number);
  return descriptor;
}

absl::Status NoEvents() {
  return absl::ResourceExhaustedError(
      absl::StrCat("no descriptors for a lane: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<ReceivedPacket> ReceivePacket(int socket,
                                             absl::Span<char> buffer) {
  ReceivedPacket received;
  iovec bytes = {buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // the space holds two
  const ssize_t size =
      recvmsg(socket, &message, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return received;
  if (size >= 0) received.descriptor = DescriptorOf(&message);
  if (size <= 0) {
    received.has_ended = true;
    return received;
  }
  if (static_cast<size_t>(size) > buffer.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a packet has ", size, " bytes and the limit is ", buffer.size()));
  }
  received.packet = absl::string_view(buffer.data(), size);
  return received;
}

absl::Status SendPacket(int socket, absl::string_view packet,
                        absl::Span<const int> descriptors) {
  iovec bytes = {const_cast<char*>(packet.data()), packet.size()};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  PassedDescriptors passed;
  passed.AddTo(&message, descriptors);
  if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("send to a lane's client: ", std::strerror(errno)));
}

absl::StatusOr<LaneEvents> MakeLaneEvents() {
  LaneEvents events;
  events.doorbell.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!events.doorbell.valid()) return NoEvents();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                 ends) != 0) {
    return NoEvents();
  }
  events.wake.Reset(ends[0]);
  events.client_wake.Reset(ends[1]);
  return events;
}

}  // namespace qgemm
