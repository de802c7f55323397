// SPDX-License-Identifier: Apache-2.0
//
// Listeners on free addresses, and clients that connect to them.

#ifndef QGEMM_TESTS_SERVER_NET_TEST_SOCKETS_H_
#define QGEMM_TESTS_SERVER_NET_TEST_SOCKETS_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "server/net/listen.h"
#include "server/net/listener.h"
#include "server/net/socket_address.h"

namespace qgemm {

inline ListenAddress AddressOf(const std::string& text) {
  const auto address = ParseListenAddress(text);
  CHECK_OK(address.status());
  return *address;
}

inline Listener MustListen(const std::string& text) {
  auto listener = Listener::Open(AddressOf(text), {});
  CHECK_OK(listener.status());
  return *std::move(listener);
}

// A socket that can connect to the address.
inline FileDescriptor NewClient(const ListenAddress& address) {
  const auto end = ToSocketAddress(address);
  CHECK_OK(end.status());
  FileDescriptor fd(socket(end->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(fd.valid());
  return fd;
}

// Returns true if the connection came about.
inline bool Connect(const FileDescriptor& client,
                    const ListenAddress& address) {
  const auto end = ToSocketAddress(address);
  return connect(client.get(), end->get(), end->length) == 0;
}

inline FileDescriptor MustConnect(const ListenAddress& address) {
  FileDescriptor client = NewClient(address);
  CHECK(Connect(client, address));
  return client;
}

// Waits for the next connection. `remote` may be null.
inline FileDescriptor MustAccept(const Listener& listener,
                                 SocketAddress* remote = nullptr) {
  pollfd waited = {listener.fd(), POLLIN, 0};
  CHECK_EQ(poll(&waited, 1, -1), 1);
  SocketAddress unused;
  if (remote == nullptr) remote = &unused;
  FileDescriptor fd(accept4(listener.fd(), remote->get(), &remote->length,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  CHECK(fd.valid());
  return fd;
}

// Waits until the other end closes, which has sent nothing.
inline void WaitForEnd(const FileDescriptor& client) {
  char byte = 0;
  CHECK(recv(client.get(), &byte, 1, 0) <= 0);
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_NET_TEST_SOCKETS_H_
