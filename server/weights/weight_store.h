// SPDX-License-Identifier: Apache-2.0
//
// Weights that the server holds, by id and name, within the weights budget.
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
#include "base/byte_budget.h"
#include "base/mutex.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

// One layer that the server holds. Immutable.
struct Weights {
  std::string id;  // 64 hexadecimal digits
  WeightsSpec spec;
  std::shared_ptr<const ResidentWeights> resident;
  int64_t uploaded_bytes = 0;
};

// Weights and the names bound to them at one moment.
struct NamedWeights {
  std::shared_ptr<const Weights> weights;
  std::vector<std::string> names;  // sorted
};

// Returns OK, or INVALID_ARGUMENT: a name is [A-Za-z0-9._/-]{1,128} and not 64
// hexadecimal digits, the form of an id.
absl::Status ValidateWeightsName(absl::string_view name);

// Thread-safe. Binding and dropping names is atomic: a reader sees the old
// weights or the new ones. Weights with a name are held until their last name
// is dropped or bound to others; weights without one, until they are unloaded
// by id. After that, their memory and their share of the budget go back with
// the last pointer to `resident`.
class WeightStore {
 public:
  // `budget_bytes` bounds resident weights and uploads in progress; 0 = no
  // limit. `metrics` may be null, else must outlive the store and every
  // pointer to its weights.
  explicit WeightStore(int64_t budget_bytes, ServerMetrics* metrics = nullptr);
  ~WeightStore();

  // Takes `bytes` of the budget. RESOURCE_EXHAUSTED names the bytes asked for,
  // the bytes in use and the budget.
  absl::StatusOr<ByteReservation> Reserve(int64_t bytes) {
    return budget_.Reserve(bytes);
  }

  // Makes the weights visible, binds `name` to them unless it is empty, and
  // returns their record. If the id is held already, that record stays and is
  // returned, and `weights` is dropped.
  std::shared_ptr<const Weights> Commit(Weights weights,
                                        ByteReservation reservation,
                                        const std::string& name);

  // Binds `name` to the weights of `id` and returns them; null if `id` is not
  // held.
  std::shared_ptr<const Weights> BindIfHeld(const std::string& id,
                                            const std::string& name);

  // Look weights up by name or id. NOT_FOUND names the argument.
  absl::StatusOr<std::shared_ptr<const Weights>> Find(
      absl::string_view name_or_id) const;
  absl::StatusOr<NamedWeights> Get(absl::string_view name_or_id) const;

  // Returns all weights by first name, then id; those without a name last.
  std::vector<NamedWeights> List() const;

  // Drops a name, and the weights with their last name; for an id, drops the
  // weights and all their names. Returns true if the weights are no longer
  // held. Errors: NOT_FOUND.
  absl::StatusOr<bool> Unload(absl::string_view name_or_id);

  int64_t budget_bytes() const { return budget_bytes_; }  // 0 = no limit
  int64_t reserved_bytes() const { return budget_.used_bytes(); }

 private:
  using Record = std::shared_ptr<const Weights>;

  // Returns the id that a name or an id stands for, held or not; "" for an
  // unknown name.
  std::string IdOf(absl::string_view name_or_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> NamesOf(const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Binds `name`; returns the weights that lost their last name by it, for
  // release after the lock.
  Record Bind(const std::string& name, const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the weights if no name is bound to them.
  Record DropIfNameless(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record Drop(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountWeights() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServerMetrics* const metrics_;
  const int64_t budget_bytes_;
  ByteBudget budget_;
  mutable Mutex mutex_;
  std::map<std::string, Record> by_id_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string, std::less<>> id_of_name_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_
