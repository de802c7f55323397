// SPDX-License-Identifier: Apache-2.0
//
// Memory of the backend that requests and answers lie in: its leases, and the
// share of it that one client may hold.

#ifndef QGEMM_SERVER_RPC_OPERANDS_H_
#define QGEMM_SERVER_RPC_OPERANDS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "kernels/matrix/backend.h"
#include "server/net/peer_table.h"
#include "server/rpc/call_registry.h"

namespace qgemm {

// Bytes of operands that count for one client, from a request's admission until
// its answer is sent. Move-only; gives them back when it goes.
class StagingCharge {
 public:
  StagingCharge() = default;  // empty
  StagingCharge(StagingCharge&& other) noexcept { *this = std::move(other); }
  StagingCharge& operator=(StagingCharge&& other) noexcept;
  ~StagingCharge() { Shrink(0); }

  // Charges the peer's identity, over all its connections. Errors:
  // RESOURCE_EXHAUSTED if it would hold more than `max_bytes` then, with the
  // time to retry unless the bytes alone are more.
  static absl::StatusOr<StagingCharge> Take(std::shared_ptr<const Peer> peer,
                                            int64_t bytes, int64_t max_bytes);

  // Gives all but `bytes` back.
  void Shrink(int64_t bytes);

 private:
  StagingCharge(std::shared_ptr<const Peer> peer, int64_t bytes)
      : peer_(std::move(peer)), bytes_(bytes) {}

  std::shared_ptr<const Peer> peer_;
  int64_t bytes_ = 0;
};

// A request's activations and its result, and what they count.
struct StagedOperands {
  StagingLease a;
  StagingLease c;
  StagingCharge charge;
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
  SentOperand(LiveCalls* live_calls, StagingLease lease, StagingCharge charge)
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
  StagingCharge charge_;
  StagingLease lease_;  // goes before the token does
  std::atomic<int64_t> slices_sent_{0};
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_OPERANDS_H_
