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

StagingCharge& StagingCharge::operator=(StagingCharge&& other) noexcept {
  if (this != &other) {
    Shrink(0);
    peer_ = std::move(other.peer_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

absl::StatusOr<StagingCharge> StagingCharge::Take(
    std::shared_ptr<const Peer> peer, int64_t bytes, int64_t max_bytes) {
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the operands have ", bytes, " bytes and one client may hold ",
        max_bytes,
        " (--max_client_staging_bytes); split the rows over several requests"));
  }
  std::atomic<int64_t>& held = peer->usage->staged_bytes;
  const int64_t before = held.fetch_add(bytes, std::memory_order_relaxed);
  if (before <= max_bytes - bytes) {
    return StagingCharge(std::move(peer), bytes);
  }
  held.fetch_sub(bytes, std::memory_order_relaxed);
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat(
          "requests and unread answers of ", peer->identity, " hold ", before,
          " bytes of operands, this one would add ", bytes, ", and the limit ",
          "of one client is ", max_bytes,
          " (--max_client_staging_bytes); read answers, or try again later")),
      kShareRetryDelay);
}

void StagingCharge::Shrink(int64_t bytes) {
  if (bytes_ <= bytes) return;
  peer_->usage->staged_bytes.fetch_sub(bytes_ - bytes,
                                       std::memory_order_relaxed);
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
