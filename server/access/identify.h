// SPDX-License-Identifier: Apache-2.0
//
// Identifies a call by the access table. Decisions only: what a connection and
// a call show is collected by server/rpc/call_gate.h.

#ifndef QGEMM_SERVER_ACCESS_IDENTIFY_H_
#define QGEMM_SERVER_ACCESS_IDENTIFY_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/access/access_table.h"
#include "server/access/principal.h"

namespace qgemm {

// Metadata that a call may have, as gRPC writes keys: a client's token, and the
// client for which a proxy calls.
inline constexpr char kTokenKey[] = "authorization";
inline constexpr char kForwardedKey[] = "x-qgemm-identity";

// Signs that a call shows of its client. Texts are borrowed.
struct Credentials {
  using Values = absl::InlinedVector<absl::string_view, 1>;

  // Values of the two kinds of metadata.
  Values authorization;
  Values forwarded;
  // True if the connection has a certificate that the server's authorities
  // signed; its names, as AccessTable::FindName takes them, the first ones
  // first.
  bool has_certificate = false;
  std::vector<std::string> certificate_names;
  // User of the process at the other end, if that is on this host.
  std::optional<uid_t> user;
};

// Cause of a call that was denied; a label of qgemm_denied_calls_total.
enum class DenyReason : uint8_t {
  kUnknown,
  kToken,
  kForwarded,
  kRight,
  kConnections,  // the client has as many as its quota
};

// "unknown", "token", "forwarded", "right", "connections".
const char* NameOf(DenyReason reason);

// The client, or UNAUTHENTICATED and why.
struct Identity {
  std::shared_ptr<const Principal> principal;  // null if the status is an error
  absl::Status status;
  DenyReason reason = DenyReason::kUnknown;
};

// Finds the client: by its token if the call has one, else by the certificate
// of the connection if it has one, else by the user. The first of these decides
// alone. A proxy's calls are the client's that they name.
Identity Identify(const AccessTable& table, const Credentials& shown);

}  // namespace qgemm

#endif  // QGEMM_SERVER_ACCESS_IDENTIFY_H_
