// SPDX-License-Identifier: Apache-2.0
//
// SO_PEERCRED for Unix sockets. For TCP the sock_diag interface of netlink
// (man 7 sock_diag), asked for one socket rather than for a list.

#include "server/net/peer_identity.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace qgemm {
namespace {

// The name that is given on this thread.
thread_local ScopedPeerName* current = nullptr;

// One question for one socket.
struct DiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

// Room for the answer: its message and attributes that are not read.
union DiagAnswer {
  nlmsghdr header;
  char bytes[1024];
};

// Network byte order throughout, as in socket addresses.
void CopyEnd(const SocketAddress& end, __be16* port, __be32 ip[4]) {
  if (end.family() == AF_INET) {
    *port = end.ipv4().sin_port;
    std::memcpy(ip, &end.ipv4().sin_addr, sizeof(in_addr));
  } else {
    *port = end.ipv6().sin6_port;
    std::memcpy(ip, &end.ipv6().sin6_addr, sizeof(in6_addr));
  }
}

DiagRequest MakeRequest(const SocketAddress& local, const SocketAddress& remote,
                        uint32_t sequence) {
  DiagRequest request = {};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.header.nlmsg_seq = sequence;
  request.body.sdiag_family = static_cast<uint8_t>(local.family());
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  inet_diag_sockid& id = request.body.id;
  CopyEnd(local, &id.idiag_sport, id.idiag_src);
  CopyEnd(remote, &id.idiag_dport, id.idiag_dst);
  id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

// The owner that an answer tells. A socket that no process holds any more, one
// in TIME_WAIT among them, has inode 0, and 0 in place of its owner: that is
// not root.
std::optional<uid_t> OwnerIn(const DiagAnswer& answer, ssize_t size) {
  const auto wanted = static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)));
  if (size < wanted || answer.header.nlmsg_len < wanted ||
      answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return std::nullopt;
  }
  inet_diag_msg message;
  std::memcpy(&message, answer.bytes + NLMSG_HDRLEN, sizeof(message));
  if (message.idiag_inode == 0 || message.idiag_state == TCP_LISTEN) {
    return std::nullopt;
  }
  return message.idiag_uid;
}

Peer PeerOfUnixSocket(int fd) {
  Peer peer;
  peer.transport = "unix";
  ucred credentials = {};
  socklen_t length = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    peer.identity = "unix";
    peer.address = "unix";
    return peer;
  }
  peer.identity = IdentityOfUser(credentials.uid);
  peer.user = credentials.uid;
  peer.address = absl::StrCat("unix pid ", credentials.pid);
  return peer;
}

}  // namespace

std::string IdentityOfUser(uid_t user) { return absl::StrCat("uid ", user); }

std::string IdentityOfAddress(const SocketAddress& address) {
  if (address.family() != AF_INET6) {
    return absl::StrCat("ip ", address.Host());
  }
  // ::ffff:10.0.0.7, of a client of a socket that listens for both.
  if (IN6_IS_ADDR_V4MAPPED(&address.ipv6().sin6_addr)) {
    return absl::StrCat("ip ", address.Host().substr(sizeof("::ffff:") - 1));
  }
  SocketAddress network = address;
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(network.storage);
  std::memset(ipv6.sin6_addr.s6_addr + 8, 0, 8);
  return absl::StrCat("ip ", network.Host(), "/64");
}

SocketOwners::SocketOwners()
    : netlink_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
                      NETLINK_SOCK_DIAG)) {}

std::optional<uid_t> SocketOwners::Find(const SocketAddress& local,
                                        const SocketAddress& remote) {
  if (!netlink_.valid()) return std::nullopt;
  const DiagRequest request = MakeRequest(local, remote, ++sequence_);
  sockaddr_nl kernel = {};
  kernel.nl_family = AF_NETLINK;
  if (sendto(netlink_.get(), &request, sizeof(request), 0,
             reinterpret_cast<const sockaddr*>(&kernel), sizeof(kernel)) < 0) {
    return std::nullopt;
  }
  // The kernel answers one question before sendto returns.
  DiagAnswer answer = {};
  ssize_t size = 0;
  do {  // skips an answer that an earlier question left
    size = recv(netlink_.get(), answer.bytes, sizeof(answer.bytes), 0);
  } while (size >= NLMSG_HDRLEN && answer.header.nlmsg_seq != sequence_);
  return OwnerIn(answer, size);
}

Peer PeerOfSocket(int fd, const SocketAddress& remote, SocketOwners* owners) {
  if (remote.family() == AF_UNIX) return PeerOfUnixSocket(fd);
  Peer peer;
  peer.address = absl::StrCat(remote.family() == AF_INET6
                                  ? absl::StrCat("[", remote.Host(), "]")
                                  : remote.Host(),
                              ":", remote.Port());
  SocketAddress own;
  if (remote.IsLoopback() && getsockname(fd, own.get(), &own.length) == 0) {
    peer.user = owners->Find(remote, own);
  }
  peer.identity = peer.user.has_value() ? IdentityOfUser(*peer.user)
                                        : IdentityOfAddress(remote);
  return peer;
}

struct PeerNameAccess {
  // Answers as getpeername does; false if `fd` has no name here.
  static bool Answer(int fd, sockaddr* address, socklen_t* length) {
    if (current == nullptr || current->fd_ != fd) return false;
    current->asked_ = true;
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    current->name_.copy(name.sun_path, sizeof(name.sun_path) - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                             current->name_.size() + 1);
    std::memcpy(address, &name, std::min(*length, size));
    *length = size;
    return true;
  }
};

ScopedPeerName::ScopedPeerName(int fd, const std::string& name)
    : fd_(fd), name_(name) {
  CHECK(current == nullptr);
  CHECK_LT(name_.size(), sizeof(sockaddr_un::sun_path));
  current = this;
}

ScopedPeerName::~ScopedPeerName() { current = nullptr; }

}  // namespace qgemm

// A program's own definition of a function of the C library comes before the
// library's, for its shared libraries too.
extern "C" __attribute__((visibility("default"))) int getpeername(
    int fd, sockaddr* __restrict address,
    socklen_t* __restrict length) noexcept {
  if (qgemm::PeerNameAccess::Answer(fd, address, length)) return 0;
  return static_cast<int>(syscall(SYS_getpeername, fd, address, length));
}
