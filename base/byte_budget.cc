// SPDX-License-Identifier: Apache-2.0
//
// The count that a budget and its reservations share.

#include "base/byte_budget.h"

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"

namespace qgemm {

struct ByteReservation::State {
  explicit State(ByteBudgetOptions chosen) : options(std::move(chosen)) {}

  // Adds `bytes`, which may be negative.
  absl::Status Add(int64_t bytes);

  const ByteBudgetOptions options;
  mutable Mutex mutex;
  int64_t used_bytes ABSL_GUARDED_BY(mutex) = 0;
};

absl::Status ByteReservation::State::Add(int64_t bytes) {
  MutexLock lock(&mutex);
  if (bytes > options.limit_bytes - used_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options.name, ": ", bytes, " bytes asked for, ",
                     used_bytes, " in use, the limit is ", options.limit_bytes,
                     options.advice.empty() ? "" : "; ", options.advice));
  }
  used_bytes += bytes;
  if (options.on_change) options.on_change(used_bytes);
  return absl::OkStatus();
}

ByteReservation& ByteReservation::operator=(ByteReservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  state_ = std::move(other.state_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

absl::Status ByteReservation::Resize(int64_t bytes) {
  CHECK_GE(bytes, 0);
  CHECK(state_ != nullptr) << "a reservation of no budget cannot grow";
  const absl::Status added = state_->Add(bytes - bytes_);
  if (added.ok()) bytes_ = bytes;
  return added;
}

void ByteReservation::Release() {
  if (state_ == nullptr) return;
  CHECK(state_->Add(-std::exchange(bytes_, 0)).ok());
  state_.reset();
}

ByteBudget::ByteBudget(ByteBudgetOptions options)
    : state_(std::make_shared<ByteReservation::State>(std::move(options))) {
  CHECK_GE(limit_bytes(), 0);
}

absl::StatusOr<ByteReservation> ByteBudget::Reserve(int64_t bytes) {
  ByteReservation reservation(state_);
  absl::Status resized = reservation.Resize(bytes);
  if (!resized.ok()) return resized;
  return reservation;
}

int64_t ByteBudget::used_bytes() const {
  MutexLock lock(&state_->mutex);
  return state_->used_bytes;
}

int64_t ByteBudget::limit_bytes() const { return state_->options.limit_bytes; }

}  // namespace qgemm
