// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/cuttable_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

absl::Status Unavailable(absl::string_view target, absl::string_view reason) {
  return absl::UnavailableError(
      absl::StrCat("connect to ", target, ": ", reason));
}

absl::StatusOr<int> ConnectTo(const std::string& target,
                              const sockaddr* address, socklen_t bytes) {
  const int descriptor =
      socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return Unavailable(target, std::strerror(errno));
  if (connect(descriptor, address, bytes) == 0) return descriptor;
  const int error = errno;
  close(descriptor);
  return Unavailable(target, std::strerror(error));
}

absl::StatusOr<int> ConnectUnix(const std::string& target,
                                absl::string_view path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("target is '", target, "'; its path has ", path.size(),
                     " bytes, must be below ", sizeof(address.sun_path)));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return ConnectTo(target, reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address));
}

absl::StatusOr<int> ConnectTcp(const std::string& target) {
  const size_t colon = target.rfind(':');
  std::string host = target.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), target.substr(colon + 1).c_str(),
                               &hints, &found);
  if (code != 0) return Unavailable(target, gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found,
                                                             freeaddrinfo);
  absl::StatusOr<int> descriptor = Unavailable(target, "no address");
  for (const addrinfo* each = found; each != nullptr && !descriptor.ok();
       each = each->ai_next) {
    descriptor = ConnectTo(target, each->ai_addr, each->ai_addrlen);
  }
  if (descriptor.ok()) {
    const int on = 1;
    setsockopt(*descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return descriptor;
}

}  // namespace

absl::StatusOr<CuttableSocket> CuttableSocket::Connect(
    const std::string& target) {
  absl::string_view path = target;
  const bool is_unix = absl::ConsumePrefix(&path, "unix:");
  ASSIGN_OR_RETURN(const int descriptor,
                   is_unix ? ConnectUnix(target, path) : ConnectTcp(target));
  return CuttableSocket(descriptor);
}

CuttableSocket::CuttableSocket(CuttableSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

CuttableSocket::~CuttableSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<int> CuttableSocket::Duplicate() const {
  const int duplicate = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0 ||
      fcntl(duplicate, F_SETFL, fcntl(duplicate, F_GETFL) | O_NONBLOCK) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("duplicate a socket: ", std::strerror(errno)));
  }
  return duplicate;
}

void CuttableSocket::Cut() { shutdown(descriptor_, SHUT_RDWR); }

}  // namespace qgemm
