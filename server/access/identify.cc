// SPDX-License-Identifier: Apache-2.0
//
// Errors name what the client itself showed, and no value of it: a proxy's log
// may hold them.

#include "server/access/identify.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace qgemm {
namespace {

constexpr absl::string_view kScheme = "bearer ";

struct Found {
  const AccessClient* client = nullptr;
  std::string problem;  // if there is none
  DenyReason reason = DenyReason::kUnknown;
};

// The names of the proxy's header that say something of a client of another
// host; a user id is of no other host.
bool MayBeForwarded(absl::string_view name) {
  return absl::StartsWith(name, "spiffe:") || absl::StartsWith(name, "san:") ||
         absl::StartsWith(name, "cn:");
}

Found FindByToken(const AccessTable& table, const Credentials& shown) {
  const absl::string_view value = shown.authorization.front();
  if (shown.authorization.size() > 1 ||
      !absl::StartsWithIgnoreCase(value, kScheme) ||
      value.size() == kScheme.size()) {
    return {nullptr,
            "authorization in the call's metadata must be given once, as "
            "\"Bearer TOKEN\"",
            DenyReason::kToken};
  }
  Sha256 hash;
  hash.Update(value.substr(kScheme.size()));
  return {table.FindToken(hash.Finish()),
          "the call's token is none that the server knows; a call with a token "
          "is judged by that alone",
          DenyReason::kToken};
}

Found FindByCertificate(const AccessTable& table, const Credentials& shown) {
  for (const std::string& name : shown.certificate_names) {
    if (const AccessClient* client = table.FindName(name)) return {client, ""};
  }
  return {nullptr,
          "the server's access table has no client with a name of the "
          "connection's certificate"};
}

Found FindByUser(const AccessTable& table, const Credentials& shown) {
  if (!shown.user.has_value()) {
    return {nullptr,
            "the call has no token and its connection neither a certificate "
            "nor a user of the server's host; send authorization: Bearer "
            "TOKEN"};
  }
  return {table.FindName(absl::StrCat("uid:", *shown.user)),
          absl::StrCat("the server's access table has no client with the "
                       "connection's user id ",
                       *shown.user)};
}

Found FindShown(const AccessTable& table, const Credentials& shown) {
  if (!shown.authorization.empty()) return FindByToken(table, shown);
  if (shown.has_certificate) return FindByCertificate(table, shown);
  return FindByUser(table, shown);
}

Found FindForwarded(const AccessTable& table, const Credentials& shown) {
  if (shown.forwarded.size() != 1 || !MayBeForwarded(shown.forwarded.front())) {
    return {
        nullptr,
        absl::StrCat("the call came through a proxy, which must name its "
                     "client once in ",
                     kForwardedKey, ", as spiffe:NAME, san:NAME or cn:NAME"),
        DenyReason::kForwarded};
  }
  const AccessClient* const client =
      table.FindName(std::string(shown.forwarded.front()));
  return {client == nullptr || client->is_proxy ? nullptr : client,
          absl::StrCat("the server's access table has no client with the name "
                       "that the proxy gave in ",
                       kForwardedKey),
          DenyReason::kForwarded};
}

}  // namespace

const char* NameOf(DenyReason reason) {
  switch (reason) {
    case DenyReason::kUnknown:
      return "unknown";
    case DenyReason::kToken:
      return "token";
    case DenyReason::kForwarded:
      return "forwarded";
    case DenyReason::kRight:
      return "right";
    case DenyReason::kConnections:
      return "connections";
  }
  return "unknown";
}

Identity Identify(const AccessTable& table, const Credentials& shown) {
  Found found = FindShown(table, shown);
  if (found.client != nullptr && found.client->is_proxy) {
    found = FindForwarded(table, shown);
  }
  if (found.client == nullptr) {
    return {nullptr, absl::UnauthenticatedError(found.problem), found.reason};
  }
  return {found.client->principal, absl::OkStatus(), found.reason};
}

}  // namespace qgemm
