// SPDX-License-Identifier: Apache-2.0
//
// Which weights the server holds, under which names, within which budget.
// Uploads in progress are in upload_session.h.

#ifndef QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_
#define QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "server/metrics/server_metrics.h"
#include "server/weights/budget.h"

namespace qgemm {

// One layer as the server holds it. Immutable.
struct StoredWeights {
  std::string id;  // 64 hexadecimal digits
  WeightsSpec spec;
  std::shared_ptr<const ResidentWeights> resident;
  int64_t uploaded_bytes = 0;
};

// A record and the names bound to it at one moment.
struct WeightsListing {
  std::shared_ptr<const StoredWeights> weights;
  std::vector<std::string> names;  // sorted
};

// OK, or INVALID_ARGUMENT: names are [A-Za-z0-9._/-]{1,128} and not 64
// hexadecimal digits, which is what an id looks like.
absl::Status ValidateWeightsName(absl::string_view name);

// Thread-safe. Binding and dropping names is atomic: a reader sees the old
// weights or the new ones. Weights that have a name live until their last name
// is dropped or bound to others; without one, until they are unloaded by id.
// Their memory and their share of the budget go back when, after that, the
// last `resident` pointer of theirs goes.
class WeightStore {
 public:
  // `budget_bytes` of resident weights, uploads in progress included; 0 = no
  // limit. `metrics` may be null, else must outlive the store and every
  // pointer to weights of it.
  explicit WeightStore(int64_t budget_bytes, ServerMetrics* metrics = nullptr);
  ~WeightStore();

  // Takes `bytes` of the budget. RESOURCE_EXHAUSTED names bytes asked for,
  // held and the budget.
  absl::StatusOr<BudgetReservation> Reserve(int64_t bytes);

  // Makes the weights visible and binds `name` to them unless it is empty.
  // If the id is held already, that record stays and `weights` is dropped.
  // Returns the record that is held.
  std::shared_ptr<const StoredWeights> Commit(StoredWeights weights,
                                              BudgetReservation reservation,
                                              const std::string& name);

  // Binds `name` to weights that are held under `id`; null if they are not.
  std::shared_ptr<const StoredWeights> BindIfHeld(const std::string& id,
                                                  const std::string& name);

  // By name or id; NOT_FOUND names what was asked for.
  absl::StatusOr<std::shared_ptr<const StoredWeights>> Find(
      absl::string_view name_or_id) const;
  absl::StatusOr<WeightsListing> Describe(absl::string_view name_or_id) const;

  // Sorted by first name, then id; weights without a name come last.
  std::vector<WeightsListing> List() const;

  // Drops a name, and the weights with their last one; by id, the weights with
  // all their names. True if the weights are no longer held; NOT_FOUND.
  absl::StatusOr<bool> Unload(absl::string_view name_or_id);

  int64_t budget_bytes() const { return ledger_->limit_bytes(); }
  int64_t reserved_bytes() const { return ledger_->held_bytes(); }

 private:
  using Record = std::shared_ptr<const StoredWeights>;

  // The id that a name or an id stands for, held or not; "" if no such name.
  std::string IdOf(absl::string_view name_or_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> NamesOf(const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Binds `name`; returns the weights that lost their last name by it, to be
  // released when the lock is not held.
  Record Bind(const std::string& name, const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes weights out if no name is bound to them.
  Record DropIfNameless(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record Drop(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountWeights() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServerMetrics* const metrics_;
  const std::shared_ptr<BudgetLedger> ledger_;
  mutable Mutex mutex_;
  std::map<std::string, Record> by_id_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string, std::less<>> id_of_name_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_
