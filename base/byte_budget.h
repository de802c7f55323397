// SPDX-License-Identifier: Apache-2.0
//
// The one home of byte budgets: memory is counted before it is taken, and the
// count goes back when its owner does. Takes no memory itself.

#ifndef QGEMM_BASE_BYTE_BUDGET_H_
#define QGEMM_BASE_BYTE_BUDGET_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qgemm {

struct ByteBudgetOptions {
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  std::string name;  // first words of errors: "weights budget"
  int64_t limit_bytes = kUnlimited;
  // Last words of errors: what the caller can do, such as "unload weights or
  // raise --weights_budget_bytes". May be empty.
  std::string advice;
  // Receives used_bytes() after each change, in order, while the budget's
  // lock is held: it must be brief and must not use the budget. May be null.
  std::function<void(int64_t used_bytes)> on_change;
};

class ByteBudget;

// Bytes of a budget, given back on destruction. Move-only; may outlive the
// budget that it came from. Used by one thread at a time.
class ByteReservation {
 public:
  ByteReservation() = default;  // empty
  ByteReservation(ByteReservation&& other) noexcept
      : state_(std::move(other.state_)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  ByteReservation& operator=(ByteReservation&& other) noexcept;
  ~ByteReservation() { Release(); }

  int64_t bytes() const { return bytes_; }

  // Grows or shrinks to `bytes` >= 0. RESOURCE_EXHAUSTED if the budget has no
  // room; the reservation stays as it is then. CHECKs that the reservation
  // came from Reserve.
  absl::Status Resize(int64_t bytes);

  // Gives the bytes back now.
  void Release();

 private:
  friend class ByteBudget;
  struct State;

  explicit ByteReservation(std::shared_ptr<State> state)
      : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
  int64_t bytes_ = 0;
};

// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(ByteBudgetOptions options);
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Takes `bytes` >= 0. RESOURCE_EXHAUSTED, and nothing taken, if that would
  // go beyond the limit; the message names the bytes asked for, the bytes in
  // use, the limit and the advice.
  absl::StatusOr<ByteReservation> Reserve(int64_t bytes);

  int64_t used_bytes() const;
  int64_t limit_bytes() const;

 private:
  const std::shared_ptr<ByteReservation::State> state_;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_BYTE_BUDGET_H_
