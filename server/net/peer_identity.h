// SPDX-License-Identifier: Apache-2.0
//
// The client at the other end of an accepted socket, as the kernel knows it.

#ifndef QGEMM_SERVER_NET_PEER_IDENTITY_H_
#define QGEMM_SERVER_NET_PEER_IDENTITY_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/file_descriptor.h"
#include "server/net/peer_table.h"
#include "server/net/socket_address.h"

namespace qgemm {

// "uid 1000".
std::string IdentityOfUser(uid_t user);

// "ip 10.0.0.7", also for the IPv6 form of such an address; the network of 64
// bits of another IPv6 address, since a host may take any address of its
// network.
std::string IdentityOfAddress(const SocketAddress& address);

// Asks the kernel whose a TCP socket of this host is. Used by one thread at a
// time.
class SocketOwners {
 public:
  // Opens a netlink socket; without one no owner is known.
  SocketOwners();

  // The user that made the socket whose own end is `local` and whose other end
  // is `remote`; nullopt if the kernel does not say, or no process holds the
  // socket any more.
  std::optional<uid_t> Find(const SocketAddress& local,
                            const SocketAddress& remote);

 private:
  FileDescriptor netlink_;
  uint32_t sequence_ = 0;
};

// The client that connected `fd`, whose address is `remote`. By a Unix socket
// it is the user that connected; by TCP from this host the user whose socket it
// is, if the kernel says, else the address.
Peer PeerOfSocket(int fd, const SocketAddress& remote, SocketOwners* owners);

// The name under which gRPC knows a connection. While it lives,
// getpeername on this descriptor and this thread answers as if the other end
// were bound to the Unix path `name`: gRPC then calls the connection "unix:" +
// name. This library defines getpeername for it, which otherwise asks the
// kernel as the C library's does.
//
// gRPC names a connection after the address of its other end, once, when it is
// handed over, and tells a call nothing else of it. The other end of a Unix
// socket has no address, so that all would have one name, and connections to
// two TCP listeners may come from one address. Its own way around, credentials
// with a metadata processor for each class of clients, copies every call's
// metadata and needs the classes to be known at the start
// (docs/decisions/0017-own-accept-loop.md).
class ScopedPeerName {
 public:
  // `name` has at most 100 bytes, of letters, digits, '-' and '/'. One at a
  // time on a thread.
  ScopedPeerName(int fd, const std::string& name);
  ScopedPeerName(const ScopedPeerName&) = delete;
  ScopedPeerName& operator=(const ScopedPeerName&) = delete;
  ~ScopedPeerName();

  // True if somebody has asked.
  bool asked() const { return asked_; }

 private:
  friend struct PeerNameAccess;

  const int fd_;
  const std::string name_;
  bool asked_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_PEER_IDENTITY_H_
