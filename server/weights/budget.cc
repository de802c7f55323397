// SPDX-License-Identifier: Apache-2.0

#include "server/weights/budget.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace qgemm {

absl::Status BudgetLedger::Take(int64_t bytes) {
  CHECK_GE(bytes, 0);
  MutexLock lock(&mutex_);
  const std::optional<int64_t> sum = CheckedAdd(held_bytes_, bytes);
  if (!sum.has_value() || (limit_bytes_ > 0 && *sum > limit_bytes_)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "weights budget: ", bytes, " bytes asked for, ", held_bytes_,
        " held, the budget is ",
        limit_bytes_ > 0 ? absl::StrCat(limit_bytes_) : "unlimited",
        " (--weights_budget_bytes); unload weights or raise it"));
  }
  held_bytes_ = *sum;
  if (metrics_ != nullptr) metrics_->SetWeightsBytes(held_bytes_);
  return absl::OkStatus();
}

void BudgetLedger::GiveBack(int64_t bytes) {
  MutexLock lock(&mutex_);
  held_bytes_ -= bytes;
  if (metrics_ != nullptr) metrics_->SetWeightsBytes(held_bytes_);
}

int64_t BudgetLedger::held_bytes() const {
  MutexLock lock(&mutex_);
  return held_bytes_;
}

absl::StatusOr<BudgetReservation> BudgetReservation::Take(
    std::shared_ptr<BudgetLedger> ledger, int64_t bytes) {
  RETURN_IF_ERROR(ledger->Take(bytes));
  return BudgetReservation(std::move(ledger), bytes);
}

}  // namespace qgemm
