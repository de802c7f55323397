// SPDX-License-Identifier: Apache-2.0
//
// Where the server listens, as flags say it, and the rule that it is on this
// host only. Whether the place is free is asked in listen_probe.h.

#ifndef QGEMM_SERVER_LISTEN_ADDRESS_H_
#define QGEMM_SERVER_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm {

// "host:port", "[ipv6]:port" or "unix:path".
struct ListenAddress {
  enum class Kind { kTcp, kUnix };

  Kind kind = Kind::kTcp;
  std::string host;  // TCP: without brackets
  int port = 0;      // TCP: 0 = a free one
  std::string path;  // Unix

  // As flags say it.
  std::string ToString() const;
};

// INVALID_ARGUMENT says what is wrong with which part.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// The address with a numeric host: of a name, its first IPv4 address, else
// its first IPv6 one. Errors: INVALID_ARGUMENT (the name does not resolve),
// FAILED_PRECONDITION (the host, or any address of the name, is not a loopback
// address). A Unix address comes back as it is.
absl::StatusOr<ListenAddress> ResolveLoopback(const ListenAddress& address);

}  // namespace qgemm

#endif  // QGEMM_SERVER_LISTEN_ADDRESS_H_
