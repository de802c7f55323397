// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/operands.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

// A few launches, after which some answers have been read.
constexpr absl::Duration kShareRetryDelay = absl::Milliseconds(50);

}  // namespace

ClientShare StagingShare(int64_t max_bytes) {
  return {&ClientUsage::staged_bytes, max_bytes, "operands",
          " (--max_client_staging_bytes)",
          "split the rows over several requests"};
}

ClientCharge& ClientCharge::operator=(ClientCharge&& other) noexcept {
  if (this != &other) {
    Shrink(0);
    peer_ = std::move(other.peer_);
    held_ = other.held_;
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

absl::StatusOr<ClientCharge> ClientCharge::Take(
    std::shared_ptr<const Peer> peer, int64_t bytes, const ClientShare& share) {
  if (bytes > share.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the ", share.what, " have ", bytes, " bytes and one client may hold ",
        share.max_bytes, share.flag, "; ", share.smaller));
  }
  std::atomic<int64_t>& held = (*peer->usage).*share.held;
  const int64_t before = held.fetch_add(bytes, std::memory_order_relaxed);
  if (before > share.max_bytes - bytes) {
    held.fetch_sub(bytes, std::memory_order_relaxed);
    return WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat(
            "requests and unread answers of ", peer->identity, " hold ", before,
            " bytes of ", share.what, ", this one would add ", bytes,
            ", and the limit of one client is ", share.max_bytes, share.flag,
            "; read answers, or try again later")),
        kShareRetryDelay);
  }
  ClientCharge charge;
  charge.peer_ = std::move(peer);
  charge.held_ = &held;
  charge.bytes_ = bytes;
  return charge;
}

void ClientCharge::Shrink(int64_t bytes) {
  if (bytes_ <= bytes) return;
  held_->fetch_sub(bytes_ - bytes, std::memory_order_relaxed);
  bytes_ = bytes;
}

absl::StatusOr<StagedOperands> AcquireOperands(Backend* backend,
                                               int64_t a_bytes,
                                               int64_t c_bytes) {
  StagedOperands operands;
  ASSIGN_OR_RETURN(operands.a, backend->AcquireStaging(a_bytes));
  ASSIGN_OR_RETURN(operands.c, backend->AcquireStaging(c_bytes));
  return operands;
}

absl::AnyInvocable<void()> SentOperand::Release(
    std::shared_ptr<SentOperand> sent) {
  // Two words, which the function holds without a block of its own.
  return [sent = std::move(sent)]() mutable {
    sent->slices_sent_.fetch_add(1, std::memory_order_relaxed);
    sent.reset();
  };
}

}  // namespace qgemm
