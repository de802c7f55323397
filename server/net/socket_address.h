// SPDX-License-Identifier: Apache-2.0
//
// The address of a socket as the kernel takes and gives it.

#ifndef QGEMM_SERVER_NET_SOCKET_ADDRESS_H_
#define QGEMM_SERVER_NET_SOCKET_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "absl/status/statusor.h"
#include "server/net/listen.h"

namespace qgemm {

// An address of any family.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = sizeof(storage);

  int family() const { return storage.ss_family; }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  // For an address of that family.
  const sockaddr_in& ipv4() const;
  const sockaddr_in6& ipv6() const;

  // "127.0.0.1", "::1"; empty for a Unix socket.
  std::string Host() const;
  // 0 for a Unix socket.
  int Port() const;
  bool IsLoopback() const;
};

bool operator==(const SocketAddress& a, const SocketAddress& b);

// Errors: INVALID_ARGUMENT if the host is not a numeric address.
absl::StatusOr<SocketAddress> ToSocketAddress(const ListenAddress& address);

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_SOCKET_ADDRESS_H_
