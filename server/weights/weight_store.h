// SPDX-License-Identifier: Apache-2.0
//
// Weights that the server holds, by id and name, within the weights budget.
// Uploads in progress are in upload_session.h.

#ifndef QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_
#define QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
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
#include "server/metrics/traffic.h"

namespace qgemm {

// One layer that the server holds. Immutable.
struct Weights {
  std::string id;  // 64 hexadecimal digits
  WeightsSpec spec;
  std::shared_ptr<const ResidentWeights> resident;
  int64_t uploaded_bytes = 0;
  // Counts its requests; set by the store, null if it has no metrics.
  std::shared_ptr<Traffic> traffic = nullptr;
};

// Bounds of a store.
struct StoreLimits {
  int64_t budget_bytes = 0;    // --weights_budget_bytes; 0 = no limit
  int64_t max_layers = 65536;  // --max_layers
  int64_t max_names = 131072;  // --max_names
};

// Bytes of the budget that a layer takes beside its ResidentWeights, and that
// each name takes: more than their records in the store and a backend take of
// the heap (weight_store_memory_test).
inline constexpr int64_t kLayerRecordBytes = 2048;
inline constexpr int64_t kNameRecordBytes = 384;

// Names of a layer that a listing has at most.
inline constexpr size_t kMaxListedNames = 100;

// Weights and the names bound to them at one moment.
struct NamedWeights {
  std::shared_ptr<const Weights> weights;
  std::vector<std::string> names;  // sorted; the first kMaxListedNames
  int64_t name_count = 0;          // of all
};

// A part of all layers, in the order of the list.
struct WeightsPage {
  struct Entry {
    NamedWeights weights;
    std::string place;  // in the list, as List takes it
  };
  std::vector<Entry> entries;
  bool is_last = true;
};

// Returns OK, or INVALID_ARGUMENT: a name is [A-Za-z0-9._/-]{1,128} and not 64
// hexadecimal digits, the form of an id.
absl::Status ValidateWeightsName(absl::string_view name);

// A name to bind to weights, and the state in which it may be. A name that is
// bound to those weights already may always be bound to them again, so that an
// upload can be repeated.
struct NameBinding {
  std::string name;          // empty: none
  bool create_only = false;  // only if the name is bound to nothing
  std::string if_match;      // only if it is bound to this id; empty: any
};

// Returns OK, or INVALID_ARGUMENT: the name or the id is none, or a condition
// is without a name or beside the other.
absl::Status Validate(const NameBinding& binding);

// Thread-safe. Binding and dropping names is atomic: a reader sees the old
// weights or the new ones. Weights with a name are held until their last name
// is dropped or bound to others; weights without one, until they are unloaded
// by id. After that, their memory and their share of the budget go back with
// the last pointer to `resident`.
class WeightStore {
 public:
  // The budget bounds resident weights, names and uploads in progress.
  // `metrics` may be null, else must outlive the store and every pointer to its
  // weights.
  explicit WeightStore(const StoreLimits& limits,
                       ServerMetrics* metrics = nullptr);
  ~WeightStore();

  // Takes `bytes` of the budget. RESOURCE_EXHAUSTED names the bytes asked for,
  // the bytes in use and the budget.
  absl::StatusOr<ByteReservation> Reserve(int64_t bytes) {
    return budget_.Reserve(bytes);
  }

  // Returns OK if Commit would bind now: for an upload's header, before its
  // bytes are sent. `id` is empty if it is not known yet. Errors: Commit's.
  absl::Status CheckCommit(const NameBinding& binding,
                           const std::string& id) const;

  // Makes the weights visible, binds the name, and returns their record. If the
  // id is held already, that record stays and is returned, and `weights` is
  // dropped. On an error nothing changes. Errors: ALREADY_EXISTS (create_only),
  // FAILED_PRECONDITION (if_match), RESOURCE_EXHAUSTED (layers, names, budget).
  absl::StatusOr<std::shared_ptr<const Weights>> Commit(
      Weights weights, ByteReservation reservation, const NameBinding& binding);

  // Binds the name to the weights of `id` and returns them; null if `id` is not
  // held. Errors: Commit's.
  absl::StatusOr<std::shared_ptr<const Weights>> BindIfHeld(
      const std::string& id, const NameBinding& binding);

  // Look weights up by name or id. NOT_FOUND names the argument.
  absl::StatusOr<std::shared_ptr<const Weights>> Find(
      absl::string_view name_or_id) const;
  // With its names that come after `names_after`, in the order of bytes.
  absl::StatusOr<NamedWeights> Get(absl::string_view name_or_id,
                                   absl::string_view names_after = "") const;

  // Returns up to `max_layers` layers by first name, then id, those without a
  // name last, from the one behind the place `after` on (empty: the first). A
  // layer whose first name changes moves in the list; all others are in exactly
  // one of the pages that follow on one another.
  WeightsPage List(absl::string_view after, int64_t max_layers) const;

  // Drops a name, and the weights with their last name; for an id, drops the
  // weights and all their names. Returns true if the weights are no longer
  // held. Errors: NOT_FOUND; FAILED_PRECONDITION if the weights have another id
  // than `if_match`, unless that is empty; INVALID_ARGUMENT if that is no id.
  absl::StatusOr<bool> Unload(absl::string_view name_or_id,
                              absl::string_view if_match = "");

  int64_t budget_bytes() const { return limits_.budget_bytes; }
  int64_t reserved_bytes() const { return budget_.used_bytes(); }

 private:
  using Record = std::shared_ptr<const Weights>;
  struct Layer;

  // A key is a layer's place in the list.
  using ListIndex = std::map<std::string, Layer*, std::less<>>;

  struct Name {
    Layer* layer = nullptr;
    ByteReservation reservation;
  };

  struct Layer {
    Record weights;
    std::set<absl::string_view> names;  // keys of by_name_
    ListIndex::iterator listed;
  };

  // Null for unknown weights.
  Layer* FindLayer(absl::string_view name_or_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckBinding(const NameBinding& binding,
                            absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Errors: too many layers or names after the binding of `id`.
  absl::Status CheckCounts(const NameBinding& binding,
                           const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the budget of a name that is not bound yet; an empty reservation for
  // one that is.
  absl::StatusOr<ByteReservation> ReserveName(const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Layer* Add(Record weights) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Binds `name`; returns the weights that lost their last name by it, for
  // release after the lock.
  Record Bind(const std::string& name, ByteReservation reservation,
              Layer* layer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a name from its layer, and removes that with its last one.
  Record RemoveName(absl::string_view name, Layer* layer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record Drop(Layer* layer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the layer to its place in the list.
  void Relist(Layer* layer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountWeights() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServerMetrics* const metrics_;
  const StoreLimits limits_;
  ByteBudget budget_;
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Layer>> by_id_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Name, std::less<>> by_name_ ABSL_GUARDED_BY(mutex_);
  ListIndex list_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_
