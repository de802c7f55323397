// SPDX-License-Identifier: Apache-2.0
//
// Binds a socket of its own and lets it go.

#include "server/listen_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

class Socket {
 public:
  explicit Socket(int family) : fd_(socket(family, SOCK_STREAM, 0)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status Refused(const ListenAddress& address, absl::string_view reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("listen on ", address.ToString(), ": ", reason));
}

// Whether a socket of this address's family binds to it.
template <typename SocketAddress>
absl::Status CheckBind(const ListenAddress& address, int family,
                       const SocketAddress& socket_address) {
  const Socket probe(family);
  if (probe.fd() < 0) return Refused(address, std::strerror(errno));
  const int on = 1;  // as gRPC's listener: past connections do not matter
  setsockopt(probe.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(probe.fd(), reinterpret_cast<const sockaddr*>(&socket_address),
           sizeof(socket_address)) != 0 ||
      listen(probe.fd(), 1) != 0) {
    return Refused(address, std::strerror(errno));
  }
  return absl::OkStatus();
}

absl::Status CheckTcp(const ListenAddress& address) {
  sockaddr_in ipv4 = {};
  if (inet_pton(AF_INET, address.host.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(address.port);
    return CheckBind(address, AF_INET, ipv4);
  }
  sockaddr_in6 ipv6 = {};
  if (inet_pton(AF_INET6, address.host.c_str(), &ipv6.sin6_addr) == 1) {
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(address.port);
    return CheckBind(address, AF_INET6, ipv6);
  }
  return Refused(address, "the host is not a numeric address");
}

absl::Status CheckUnix(const ListenAddress& address) {
  struct stat file;
  if (lstat(address.path.c_str(), &file) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return Refused(address, std::strerror(errno));
  }
  if (!S_ISSOCK(file.st_mode)) {
    return Refused(address, "a file that is not a socket is there");
  }
  sockaddr_un socket_address = {};
  socket_address.sun_family = AF_UNIX;
  address.path.copy(socket_address.sun_path,
                    sizeof(socket_address.sun_path) - 1);
  const Socket probe(AF_UNIX);
  if (probe.fd() < 0) return Refused(address, std::strerror(errno));
  if (connect(probe.fd(), reinterpret_cast<const sockaddr*>(&socket_address),
              sizeof(socket_address)) == 0) {
    return Refused(address, "another process listens there");
  }
  if (errno != ECONNREFUSED) return Refused(address, std::strerror(errno));
  if (unlink(address.path.c_str()) != 0) {
    return Refused(address, absl::StrCat("remove the stale socket: ",
                                         std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFree(const ListenAddress& address) {
  return address.kind == ListenAddress::Kind::kTcp ? CheckTcp(address)
                                                   : CheckUnix(address);
}

}  // namespace qgemm
