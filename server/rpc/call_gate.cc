// SPDX-License-Identifier: Apache-2.0
//
// A call of a client that its connection knows costs two look-ups and the
// comparison of its token; what a connection shows first costs microseconds.

#include "server/rpc/call_gate.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "rpc/grpc_status.h"
#include "server/rpc/call_registry.h"

namespace qgemm {
namespace {

// Properties that gRPC finds in a certificate, as the access table writes them,
// and in its order.
struct CertificateName {
  const char* property;
  const char* prefix;
};
constexpr CertificateName kCertificateNames[] = {
    {"peer_spiffe_id", "spiffe:"},
    {"x509_subject_alternative_name", "san:"},
    {"x509_common_name", "cn:"},
};

absl::string_view ToView(const grpc::string_ref& text) {
  return {text.data(), text.size()};
}

// Adds the metadata that says who calls. Borrows from the context.
void CollectMetadata(const grpc::ServerContextBase& context,
                     Credentials* shown) {
  for (const auto& [key, value] : context.client_metadata()) {
    if (key == kTokenKey) shown->authorization.push_back(ToView(value));
    if (key == kForwardedKey) shown->forwarded.push_back(ToView(value));
  }
}

// Adds the names of the connection's certificate. A listener of TLS demands one
// and has gRPC verify it: whatever is not plain is judged by it, even if it has
// no name that gRPC knows.
void CollectCertificate(const grpc::ServerContextBase& context,
                        Credentials* shown) {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) return;
  for (const grpc::string_ref& type :
       auth->FindPropertyValues("transport_security_type")) {
    if (type != "insecure") shown->has_certificate = true;
  }
  if (!shown->has_certificate) return;
  for (const CertificateName& name : kCertificateNames) {
    for (const grpc::string_ref& value :
         auth->FindPropertyValues(name.property)) {
      shown->certificate_names.push_back(
          absl::StrCat(name.prefix, ToView(value)));
    }
  }
}

// True for what a connection may remember: it tells "no value" from "one" by
// its text alone.
bool IsRepeatable(const Credentials::Values& values) {
  return values.empty() || (values.size() == 1 && !values.front().empty());
}

absl::string_view FirstOf(const Credentials::Values& values) {
  return values.empty() ? absl::string_view() : values.front();
}

absl::Status TooManyConnections(const Peer& client, int quota) {
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat(
          client.identity, " has ", quota,
          " connections, which is its quota (connections in the access table); "
          "close one, or send the calls over those that it has")),
      kPlaceRetryDelay);
}

}  // namespace

absl::Status RpcAccess::Check(const Principal& principal,
                              absl::string_view method) const {
  if (kind_ != Kind::kRight || principal.rights.Has(one_) ||
      principal.rights.Has(other_)) {
    return absl::OkStatus();
  }
  const std::string rights =
      one_ == other_
          ? absl::StrCat("the right ", NameOf(one_))
          : absl::StrCat("the rights ", NameOf(one_), " and ", NameOf(other_));
  return absl::PermissionDeniedError(absl::StrCat(
      "client ", principal.client_id, " lacks ", rights,
      one_ == other_ ? ", which " : ", one of which ", method, " needs"));
}

CallGate::Admission CallGate::Admit(
    const Rpc& rpc, const grpc::ServerContextBase& context) const {
  Admission admission;
  admission.peer = peers_->Find(context);
  if (access_ == nullptr || rpc.access.is_for_everybody()) return admission;
  admission.generation = access_->generation();
  Conclude(rpc, Find(*admission.peer, context, admission.generation),
           &admission);
  return admission;
}

CallGate::Admission CallGate::Admit(const Rpc& rpc,
                                    std::shared_ptr<const Peer> connection,
                                    const Credentials& shown) const {
  Admission admission;
  admission.peer = std::move(connection);
  if (access_ == nullptr || rpc.access.is_for_everybody()) return admission;
  admission.generation = access_->generation();
  Conclude(rpc, FindInTable(*admission.peer, shown), &admission);
  return admission;
}

void CallGate::Conclude(const Rpc& rpc, Found found,
                        Admission* admission) const {
  if (found.status.ok()) {
    admission->peer = std::move(found.client);
    found.status = rpc.access.Check(*admission->peer->principal, rpc.method);
    found.reason = DenyReason::kRight;
  }
  admission->status = std::move(found.status);
  if (!admission->status.ok()) Deny(rpc, found.reason, *admission);
}

CallGate::Found CallGate::Find(const Peer& connection,
                               const grpc::ServerContextBase& context,
                               uint64_t generation) const {
  Credentials shown;
  CollectMetadata(context, &shown);
  const ConnectionClients::Shown key = {FirstOf(shown.authorization),
                                        FirstOf(shown.forwarded)};
  const bool repeatable =
      IsRepeatable(shown.authorization) && IsRepeatable(shown.forwarded);
  Found found;
  if (repeatable) found.client = connection.clients->Find(key, generation);
  if (found.client != nullptr) return found;
  CollectCertificate(context, &shown);
  shown.user = connection.user;
  found = FindInTable(connection, shown);
  if (found.status.ok() && repeatable) {
    connection.clients->Remember(key, generation, found.client);
  }
  return found;
}

CallGate::Found CallGate::FindInTable(const Peer& connection,
                                      const Credentials& shown) const {
  Found found;
  Identity identity = Identify(*access_->table(), shown);
  found.status = std::move(identity.status);
  found.reason = identity.reason;
  if (!found.status.ok()) return found;
  found.client = peers_->ClientOf(connection, std::move(identity.principal));
  const int quota = QuotaOf(*found.client, &Quota::connections);
  if (!connection.clients->Count(found.client->usage, quota)) {
    found.status = TooManyConnections(*found.client, quota);
    found.reason = DenyReason::kConnections;
  }
  return found;
}

void CallGate::Deny(const Rpc& rpc, DenyReason reason,
                    const Admission& denied) const {
  metrics_->CallDenied(NameOf(reason));
  LogEvent event(LogSeverity::kWarning, __FILE__, __LINE__, "call_denied",
                 absl::StrCat(rpc.method, " ", NameOf(reason)));
  if (!event.is_written()) return;
  event.With("method", rpc.method)
      .With("reason", NameOf(reason))
      .With("error", denied.status.message())
      .With("client", denied.peer->identity)
      .With("address", denied.peer->address);
}

}  // namespace qgemm
