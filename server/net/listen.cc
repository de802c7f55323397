// SPDX-License-Identifier: Apache-2.0
//
// Names are resolved by getaddrinfo.

#include "server/net/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file_descriptor.h"

namespace qgemm {
namespace {

// Bytes of a Unix socket's path without its terminating zero.
constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Malformed(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("listen address \"", text, "\": ", why,
                   "; expected host:port, [ipv6]:port, tls:host:port or "
                   "unix:path"));
}

absl::StatusOr<ListenAddress> ParseUnix(absl::string_view text,
                                        absl::string_view path) {
  if (path.empty()) return Malformed(text, "the path is empty");
  if (path.size() > kMaxPathBytes) {
    return Malformed(text, absl::StrCat("the path has ", path.size(),
                                        " bytes and a Unix socket's has at "
                                        "most ",
                                        kMaxPathBytes));
  }
  ListenAddress address;
  address.kind = ListenAddress::Kind::kUnix;
  address.path = std::string(path);
  return address;
}

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

// Numeric text of an address and its properties.
struct NumericHost {
  std::string text;
  bool loopback = false;
  bool ipv4 = false;
};

NumericHost ToNumeric(const sockaddr* address) {
  NumericHost host;
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    const in_addr& ip = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    inet_ntop(AF_INET, &ip, text, sizeof(text));
    host.loopback = ntohl(ip.s_addr) >> 24 == IN_LOOPBACKNET;
    host.ipv4 = true;
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& ip =
        reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    inet_ntop(AF_INET6, &ip, text, sizeof(text));
    host.loopback = IN6_IS_ADDR_LOOPBACK(&ip);
  }
  host.text = text;
  return host;
}

absl::Status NotLoopback(const ListenAddress& address,
                         const NumericHost& host) {
  std::string resolved;
  if (host.text != address.host) {
    resolved = absl::StrCat(" (", host.text, ")");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "listen address \"", address.ToString(), "\": ", address.host, resolved,
      " is reachable from other hosts, and without TLS anybody there could "
      "use the server; use tls:",
      address.ToString(),
      " with --tls_cert, --tls_key, --tls_client_ca and --access_table, or "
      "127.0.0.1, [::1] or unix:path"));
}

}  // namespace

std::string ListenAddress::ToString() const {
  if (kind == Kind::kUnix) return absl::StrCat("unix:", path);
  const absl::string_view scheme = kind == Kind::kTls ? "tls:" : "";
  if (host.find(':') == std::string::npos) {
    return absl::StrCat(scheme, host, ":", port);
  }
  return absl::StrCat(scheme, "[", host, "]:", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) return ParseUnix(text, rest);
  const bool has_tls = absl::ConsumePrefix(&rest, "tls:");
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) return Malformed(text, "no port");
  absl::string_view host = rest.substr(0, colon);
  const absl::string_view digits = rest.substr(colon + 1);
  const bool bracketed =
      absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  if (host.empty()) return Malformed(text, "no host");
  if (host.find_first_of("[]/") != absl::string_view::npos ||
      (!bracketed && host.find(':') != absl::string_view::npos)) {
    return Malformed(text, "the host is malformed");
  }
  ListenAddress address;
  if (has_tls) address.kind = ListenAddress::Kind::kTls;
  address.host = std::string(host);
  if (digits.empty() || !absl::ascii_isdigit(digits[0]) ||
      !absl::SimpleAtoi(digits, &address.port) || address.port > 65535) {
    return Malformed(text, "the port must be 0 to 65535");
  }
  return address;
}

absl::StatusOr<ListenAddress> Resolve(const ListenAddress& address) {
  if (address.kind == ListenAddress::Kind::kUnix) return address;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen address \"", address.ToString(),
                     "\": cannot resolve the host: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  NumericHost chosen;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const NumericHost host = ToNumeric(each->ai_addr);
    if (!host.loopback && address.kind != ListenAddress::Kind::kTls) {
      return NotLoopback(address, host);
    }
    if (chosen.text.empty() || (host.ipv4 && !chosen.ipv4)) chosen = host;
  }
  ListenAddress resolved = address;
  resolved.host = chosen.text;
  return resolved;
}

absl::Status WritePortFile(const std::string& path,
                           absl::Span<const int> ports) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  const auto failed = [&](absl::string_view step) {
    const int error = errno;
    std::remove(temporary.c_str());
    return absl::UnknownError(absl::StrCat(step, ": ", std::strerror(error)));
  };
  std::string text;
  for (const int port : ports) absl::StrAppend(&text, port, "\n");
  // One of an earlier process, or a link that leads elsewhere.
  std::remove(temporary.c_str());
  FileDescriptor file(open(temporary.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           0666));
  const std::string write_step = "write port file " + temporary;
  if (!file.valid()) {
    return absl::UnknownError(
        absl::StrCat(write_step, ": ", std::strerror(errno)));
  }
  errno = ENOSPC;  // of a write that ends early
  if (write(file.get(), text.data(), text.size()) !=
      static_cast<ssize_t>(text.size())) {
    return failed(write_step);
  }
  if (close(file.Release()) != 0) return failed(write_step);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return failed("rename port file to " + path);
  }
  return absl::OkStatus();
}

}  // namespace qgemm
