// SPDX-License-Identifier: Apache-2.0
//
// Addresses that the server listens at: their syntax in flags, the rule that
// only those with TLS are reachable from other hosts, and the file that tells
// scripts the ports.

#ifndef QGEMM_SERVER_NET_LISTEN_H_
#define QGEMM_SERVER_NET_LISTEN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace qgemm {

// "host:port", "[ipv6]:port", the same after "tls:", or "unix:path".
struct ListenAddress {
  enum class Kind { kTcp, kTls, kUnix };

  Kind kind = Kind::kTcp;
  std::string host;  // TCP and TLS: without brackets
  int port = 0;      // TCP and TLS: 0 = a free one
  std::string path;  // Unix

  // Returns the address in the syntax of --listen.
  std::string ToString() const;
};

// Errors: INVALID_ARGUMENT names the text, its malformed part and the syntax.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// Returns the address with a numeric host: a name's first IPv4 address, else
// its first IPv6 one. Returns a Unix address unchanged. Errors:
// INVALID_ARGUMENT (the name does not resolve), FAILED_PRECONDITION (the host,
// or any address of the name, is not a loopback address, and there is no TLS).
absl::StatusOr<ListenAddress> Resolve(const ListenAddress& address);

// Writes one port a line to a temporary file and renames it to `path`, so that
// readers see the whole file or none. The temporary file is a new one: a link
// that somebody put in its place is not followed. Errors: UNKNOWN names the
// step, the path and the system's reason.
absl::Status WritePortFile(const std::string& path,
                           absl::Span<const int> ports);

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_LISTEN_H_
