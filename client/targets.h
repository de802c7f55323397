// SPDX-License-Identifier: Apache-2.0
//
// The servers that a client's target names. Texts and name service; the
// connections are in channels.h.

#ifndef QGEMM_CLIENT_TARGETS_H_
#define QGEMM_CLIENT_TARGETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm {

// One server.
struct ServerTarget {
  std::string
      address;  // as gRPC takes it: host:port, unix:path, ipv4:a.b.c.d:p
  // The name that its certificate must have, if that is not the address's host.
  std::string certificate_name;
  bool is_unix = false;
  bool is_local = false;  // its bytes stay on this machine
};

// Most servers of one client.
inline constexpr int kMaxServers = 64;

// The servers of `targets`: host:port, unix:path or dns:///name:port, with
// commas between several. A dns:/// target stands for a server at each address
// that the name has now; the others are one server each. Blocks on the name
// service for dns:/// alone.
// Errors: INVALID_ARGUMENT (a target, one that is named twice, more than
// kMaxServers); UNAVAILABLE (a dns:/// name without an address).
absl::StatusOr<std::vector<ServerTarget>> ResolveTargets(
    absl::string_view targets);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_TARGETS_H_
