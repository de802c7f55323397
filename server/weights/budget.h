// SPDX-License-Identifier: Apache-2.0
//
// The weights budget: bytes taken before an upload and given back when the
// last user of the weights is gone. Which weights are held is in
// weight_store.h.

#ifndef QGEMM_SERVER_WEIGHTS_BUDGET_H_
#define QGEMM_SERVER_WEIGHTS_BUDGET_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

// What is held of a budget. Thread-safe; shared by the reservations, so that
// they may outlive the store.
class BudgetLedger {
 public:
  // 0 = no limit. `metrics` may be null, else must outlive the ledger.
  BudgetLedger(int64_t limit_bytes, ServerMetrics* metrics)
      : limit_bytes_(limit_bytes), metrics_(metrics) {}

  // Takes `bytes`, which is not negative. RESOURCE_EXHAUSTED names bytes
  // asked for, held and the limit.
  absl::Status Take(int64_t bytes);
  void GiveBack(int64_t bytes);

  int64_t held_bytes() const;
  int64_t limit_bytes() const { return limit_bytes_; }

 private:
  const int64_t limit_bytes_;
  ServerMetrics* const metrics_;
  mutable Mutex mutex_;
  int64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A share of the weights budget, given back when it is destroyed. Move-only.
class BudgetReservation {
 public:
  static absl::StatusOr<BudgetReservation> Take(
      std::shared_ptr<BudgetLedger> ledger, int64_t bytes);

  // Holds nothing.
  BudgetReservation() = default;
  BudgetReservation(BudgetReservation&& other) noexcept
      : ledger_(std::move(other.ledger_)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  BudgetReservation& operator=(BudgetReservation&& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BudgetReservation() {
    if (ledger_ != nullptr) ledger_->GiveBack(bytes_);
  }

  int64_t bytes() const { return bytes_; }

 private:
  BudgetReservation(std::shared_ptr<BudgetLedger> ledger, int64_t bytes)
      : ledger_(std::move(ledger)), bytes_(bytes) {}

  std::shared_ptr<BudgetLedger> ledger_;
  int64_t bytes_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_BUDGET_H_
