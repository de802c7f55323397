// SPDX-License-Identifier: Apache-2.0
//
// Finds out who a call comes from and whether it may go on, once when it
// arrives and before its message is parsed.

#ifndef QGEMM_SERVER_RPC_CALL_GATE_H_
#define QGEMM_SERVER_RPC_CALL_GATE_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/access/access_control.h"
#include "server/access/identify.h"
#include "server/access/principal.h"
#include "server/metrics/server_metrics.h"
#include "server/net/peer_table.h"

namespace qgemm {

// Demand of an RPC on its clients where there is an access table. There is no
// default: whoever adds an RPC says it.
class RpcAccess {
 public:
  // Whoever connects; who that is, is not asked.
  static constexpr RpcAccess Everybody() { return RpcAccess(Kind::kEverybody); }
  // Every client of the table.
  static constexpr RpcAccess AnyClient() { return RpcAccess(Kind::kAnyClient); }
  // The clients that have the right, or either of two.
  static constexpr RpcAccess Needs(Right right) {
    return RpcAccess(Kind::kRight, right, right);
  }
  static constexpr RpcAccess NeedsEither(Right one, Right other) {
    return RpcAccess(Kind::kRight, one, other);
  }

  bool is_for_everybody() const { return kind_ == Kind::kEverybody; }

  // OK, or PERMISSION_DENIED with the client's id and the right that it lacks.
  absl::Status Check(const Principal& principal,
                     absl::string_view method) const;

 private:
  enum class Kind : uint8_t { kEverybody, kAnyClient, kRight };

  constexpr explicit RpcAccess(Kind kind, Right one = Right::kNone,
                               Right other = Right::kNone)
      : kind_(kind), one_(one), other_(other) {}

  Kind kind_;
  Right one_;
  Right other_;
};

// An RPC as its calls are counted and admitted.
struct Rpc {
  absl::string_view method;  // outlives the calls
  RpcAccess access;
};

// Thread-safe.
class CallGate {
 public:
  // The outcome for one call.
  struct Admission {
    absl::Status status;
    // Never null: of a call that is admitted the client, with its principal if
    // there is a table; else the connection's.
    std::shared_ptr<const Peer> peer;
    uint64_t generation = 0;  // of the table that decided
  };

  // `access` is null without an access table: everybody may everything then.
  // All must outlive the gate.
  CallGate(const AccessControl* access, const PeerTable* peers,
           ServerMetrics* metrics)
      : access_(access), peers_(peers), metrics_(metrics) {}

  bool has_table() const { return access_ != nullptr; }

  // Decides on a call that has arrived. One that is denied is counted and
  // logged. Errors: UNAUTHENTICATED, PERMISSION_DENIED.
  Admission Admit(const Rpc& rpc, const grpc::ServerContextBase& context) const;

  // The same for a client that calls by other means than gRPC: over
  // `connection`, which the peer table holds, showing that.
  Admission Admit(const Rpc& rpc, std::shared_ptr<const Peer> connection,
                  const Credentials& shown) const;

  // False once another table decides than that of the generation.
  bool IsCurrent(uint64_t generation) const {
    return access_ == nullptr || access_->generation() == generation;
  }

 private:
  struct Found {
    std::shared_ptr<const Peer> client;  // if the status is OK
    absl::Status status;
    DenyReason reason = DenyReason::kUnknown;
  };

  // Asks the connection, then the table.
  Found Find(const Peer& connection, const grpc::ServerContextBase& context,
             uint64_t generation) const;
  // Asks the table, and counts the connection for the client.
  Found FindInTable(const Peer& connection, const Credentials& shown) const;
  // Takes over who was found, if the RPC is for them.
  void Conclude(const Rpc& rpc, Found found, Admission* admission) const;
  void Deny(const Rpc& rpc, DenyReason reason, const Admission& denied) const;

  const AccessControl* const access_;
  const PeerTable* const peers_;
  ServerMetrics* const metrics_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_CALL_GATE_H_
