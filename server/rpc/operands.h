// SPDX-License-Identifier: Apache-2.0
//
// Memory of the backend that requests and answers lie in: its leases, and the
// share of it that one client may hold. The same share of other memory.

#ifndef QGEMM_SERVER_RPC_OPERANDS_H_
#define QGEMM_SERVER_RPC_OPERANDS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/matrix/backend.h"
#include "server/net/peer_table.h"
#include "server/rpc/call_registry.h"

namespace qgemm {

// The part of a quantity that one client may hold, and its words in errors.
struct ClientShare {
  std::atomic<int64_t> ClientUsage::*held = nullptr;
  int64_t max_bytes = 0;
  absl::string_view what;     // "operands"
  absl::string_view flag;     // " (--max_bytes)", or nothing
  absl::string_view smaller;  // how to ask for less
};

// The share of --max_client_staging_bytes.
ClientShare StagingShare(int64_t max_bytes);

// Bytes that count for one client, over all its connections: of operands, say,
// from a request's admission until its answer is sent. Move-only; gives them
// back when it goes.
class ClientCharge {
 public:
  ClientCharge() = default;  // empty
  ClientCharge(ClientCharge&& other) noexcept { *this = std::move(other); }
  ClientCharge& operator=(ClientCharge&& other) noexcept;
  ~ClientCharge() { Shrink(0); }

  // Charges the peer's identity. Errors: RESOURCE_EXHAUSTED if it would hold
  // more than its share then, with the time to retry unless the bytes alone
  // are more.
  static absl::StatusOr<ClientCharge> Take(std::shared_ptr<const Peer> peer,
                                           int64_t bytes,
                                           const ClientShare& share);

  // Gives all but `bytes` back.
  void Shrink(int64_t bytes);

 private:
  std::shared_ptr<const Peer> peer_;
  std::atomic<int64_t>* held_ = nullptr;  // the peer's
  int64_t bytes_ = 0;
};

// A request's activations and its result, and what they count.
struct StagedOperands {
  StagingLease a;
  StagingLease c;
  ClientCharge charge;
};

// Counts for no client. Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<StagedOperands> AcquireOperands(Backend* backend,
                                               int64_t a_bytes,
                                               int64_t c_bytes);

// An answer's bytes while they are being sent. The server's end waits until
// this goes: gRPC may hold an answer's bytes for longer than the call.
class SentOperand {
 public:
  // `live_calls` must outlive it.
  SentOperand(LiveCalls* live_calls, StagingLease lease, ClientCharge charge)
      : token_(live_calls),
        charge_(std::move(charge)),
        lease_(std::move(lease)) {}

  // The release of a slice of the bytes, which counts it as sent.
  static absl::AnyInvocable<void()> Release(std::shared_ptr<SentOperand> sent);

  // Grows as slices are sent. Thread-safe.
  int64_t slices_sent() const {
    return slices_sent_.load(std::memory_order_relaxed);
  }
  int64_t size_bytes() const { return lease_.size_bytes(); }

 private:
  // The token keeps the backend, which the bytes belong to, from going first.
  const LiveCalls::Token token_;
  ClientCharge charge_;
  StagingLease lease_;  // goes before the token does
  std::atomic<int64_t> slices_sent_{0};
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_OPERANDS_H_
