// SPDX-License-Identifier: Apache-2.0
//
// Which weights the server holds, under which names, within which budget.
// Uploads in progress are in upload_session.h.

#ifndef QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_
#define QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_

#include <cstdint>
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

// A share of the weights budget, given back when it is destroyed. Move-only.
class BudgetReservation;

// OK, or INVALID_ARGUMENT: names are [A-Za-z0-9._/-]{1,128} and not 64
// hexadecimal digits, which is what an id looks like.
absl::Status ValidateWeightsName(absl::string_view name);

// Thread-safe. Binding and dropping names is atomic: a reader sees the old
// weights or the new ones. Weights live until their last name is dropped, or
// they are unloaded by id, and their last lease (shared_ptr) is gone; their
// share of the budget is given back then.
class WeightStore {
 public:
  // `budget_bytes` of resident weights, uploads in progress included; 0 = no
  // limit.
  explicit WeightStore(int64_t budget_bytes);
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

  // True if the weights themselves are no longer held; NOT_FOUND.
  absl::StatusOr<bool> Unload(absl::string_view name_or_id);

  int64_t budget_bytes() const { return budget_bytes_; }
  int64_t reserved_bytes() const;

 private:
  struct Ledger;  // outlives the store while reservations do

  const int64_t budget_bytes_;
  const std::shared_ptr<Ledger> ledger_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const StoredWeights>> by_id_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> id_of_name_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_
