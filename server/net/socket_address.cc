// SPDX-License-Identifier: Apache-2.0

#include "server/net/socket_address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

std::string ToText(int family, const void* ip) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(family, ip, text, sizeof(text));
  return text;
}

SocketAddress ToUnix(const std::string& path) {
  SocketAddress result;
  auto& address = reinterpret_cast<sockaddr_un&>(result.storage);
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  result.length = sizeof(address);
  return result;
}

}  // namespace

const sockaddr_in& SocketAddress::ipv4() const {
  return reinterpret_cast<const sockaddr_in&>(storage);
}

const sockaddr_in6& SocketAddress::ipv6() const {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

std::string SocketAddress::Host() const {
  if (family() == AF_INET) return ToText(AF_INET, &ipv4().sin_addr);
  if (family() == AF_INET6) return ToText(AF_INET6, &ipv6().sin6_addr);
  return "";
}

int SocketAddress::Port() const {
  if (family() == AF_INET) return ntohs(ipv4().sin_port);
  if (family() == AF_INET6) return ntohs(ipv6().sin6_port);
  return 0;
}

bool SocketAddress::IsLoopback() const {
  if (family() == AF_INET) {
    return ntohl(ipv4().sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&ipv6().sin6_addr);
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  return a.length == b.length &&
         std::memcmp(&a.storage, &b.storage, a.length) == 0;
}

absl::StatusOr<SocketAddress> ToSocketAddress(const ListenAddress& address) {
  if (address.kind == ListenAddress::Kind::kUnix) return ToUnix(address.path);
  SocketAddress result;
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(result.storage);
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(result.storage);
  if (inet_pton(AF_INET, address.host.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(address.port);
    result.length = sizeof(ipv4);
    return result;
  }
  if (inet_pton(AF_INET6, address.host.c_str(), &ipv6.sin6_addr) == 1) {
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(address.port);
    result.length = sizeof(ipv6);
    return result;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "listen on ", address.ToString(), ": the host is not a numeric address"));
}

}  // namespace qgemm
