// SPDX-License-Identifier: Apache-2.0
//
// A Unix socket that keeps what is sent to it, in the place of systemd's.

#ifndef QGEMM_TESTS_SUPPORT_DATAGRAM_SOCKET_H_
#define QGEMM_TESTS_SUPPORT_DATAGRAM_SOCKET_H_

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/file_descriptor.h"

namespace qgemm {

// For one thread.
class DatagramSocket {
 public:
  // A path that does not exist, or an abstract name that begins with '@'.
  explicit DatagramSocket(const std::string& name)
      : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    CHECK_EQ(
        bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length),
        0);
  }

  // Waits for a datagram.
  std::string Next() {
    char buffer[4096];
    const ssize_t size = recv(fd_.get(), buffer, sizeof(buffer), 0);
    CHECK_GE(size, 0);
    return std::string(buffer, size);
  }

  // Waits for a datagram, and returns the descriptor that came with it; none if
  // none did.
  FileDescriptor NextDescriptor() {
    char buffer[4096];
    iovec bytes = {buffer, sizeof(buffer)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    CHECK_GE(recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC), 0);
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header == nullptr) return FileDescriptor();
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof(descriptor));
    return FileDescriptor(descriptor);
  }

  // Those that have come and nobody has taken.
  std::vector<std::string> TakeAll() {
    std::vector<std::string> messages;
    char byte;
    while (recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) {
      messages.push_back(Next());
    }
    return messages;
  }

 private:
  const FileDescriptor fd_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_DATAGRAM_SOCKET_H_
