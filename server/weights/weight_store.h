// SPDX-License-Identifier: Apache-2.0
//
// Weights that the server holds, by id and name, within the weights budget and
// on the disk of its state directory. Uploads in progress are in
// upload_session.h, the way from the disk in layer_loader.h.

#ifndef QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_
#define QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "server/keep/kept_layers.h"
#include "server/metrics/server_metrics.h"
#include "server/metrics/traffic.h"
#include "server/storage/state_directory.h"
#include "server/weights/eviction.h"
#include "server/weights/name_binding.h"
#include "server/weights/named_store.h"
#include "server/weights/owners.h"
#include "server/weights/room_queue.h"

namespace qgemm {

// Last request for a layer, the time until which clients want it to stay in
// memory, and the programs that keep it there. Thread-safe.
class LayerUse {
 public:
  void Touch(absl::Time now) {
    last_.store(absl::ToUnixNanos(now), std::memory_order_relaxed);
  }
  void EndLeases() { leased_until_.store(0, std::memory_order_relaxed); }
  // Lasts until the latest time of all leases.
  void Lease(absl::Time until) {
    const int64_t wanted = absl::ToUnixNanos(until);
    int64_t leased = leased_until_.load(std::memory_order_relaxed);
    while (leased < wanted && !leased_until_.compare_exchange_weak(
                                  leased, wanted, std::memory_order_relaxed)) {
    }
  }
  void BeginHold() { holds_.fetch_add(1, std::memory_order_relaxed); }
  void EndHold() { holds_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_held() const { return holds_.load(std::memory_order_relaxed) > 0; }
  // The infinite past if there was none.
  absl::Time last() const { return TimeOf(last_); }
  absl::Time leased_until() const { return TimeOf(leased_until_); }

 private:
  static absl::Time TimeOf(const std::atomic<int64_t>& nanoseconds) {
    const int64_t time = nanoseconds.load(std::memory_order_relaxed);
    return time == 0 ? absl::InfinitePast() : absl::FromUnixNanos(time);
  }

  std::atomic<int64_t> last_{0};
  std::atomic<int64_t> leased_until_{0};
  std::atomic<int64_t> holds_{0};
};

// One layer that the server holds. Immutable: one that is brought from the disk
// has another record then.
struct Weights {
  std::string id;  // 64 hexadecimal digits
  WeightsSpec spec;
  // Null while the layer is on the disk alone.
  std::shared_ptr<const ResidentWeights> resident;
  int64_t uploaded_bytes = 0;
  // Counts its requests; set by the store, null if it has no metrics.
  std::shared_ptr<Traffic> traffic = nullptr;
  // Set by the store; of all records of the layer.
  std::shared_ptr<LayerUse> use = nullptr;
  // Memory that has left, as long as somebody still uses it; set by the store.
  std::weak_ptr<const ResidentWeights> leaving = {};
};

// Memory that counts for a client that holds the layer.
std::vector<HeldItem> ItemsOf(const Weights& weights);

// Bounds of a store.
struct StoreLimits {
  int64_t budget_bytes = 0;    // --weights_budget_bytes; 0 = no limit
  int64_t max_layers = 65536;  // --max_layers
  int64_t max_names = 131072;  // --max_names
};

// The disk on which layers and names outlive the process, and to which layers
// leave memory that others need. All must outlive the store.
struct StateTier {
  StateDirectory* directory = nullptr;
  const Clock* clock = nullptr;
  std::vector<std::string> pin_names;  // of layers that stay in memory
  EvictionRule eviction;
  // Enters every layer that is in memory; null: none outlives the process.
  KeptLayers* kept = nullptr;
};

// Bytes of the budget that a layer takes beside its ResidentWeights, and that
// each name takes: more than their records in the store and a backend take of
// the heap (weight_store_memory_test).
inline constexpr int64_t kLayerRecordBytes = 2048;
inline constexpr int64_t kNameRecordBytes = 384;

// Patience of one that waits for room in the budget.
enum class RoomPatience : uint8_t {
  kNone,      // no longer
  kForUsers,  // as long as bytes come back from requests in progress
  kForTime,   // also until layers were left alone for long enough
};

using NamedWeights = NamedRecord<Weights>;
using WeightsPage = ListPage<Weights>;

// Thread-safe. Names, ids, owners, callers and the list are NamedStore's.
// Weights that are dropped give their memory and their share of the budget back
// with the last pointer to `resident`.
class WeightStore {
 public:
  // The budget bounds resident weights, names and uploads in progress.
  // `metrics` may be null, else must outlive the store and every pointer to its
  // weights. With a state directory every change of what is held is there
  // before it is made.
  explicit WeightStore(const StoreLimits& limits,
                       ServerMetrics* metrics = nullptr,
                       StateTier state = StateTier());

  // Holds all that the state directory has, on the disk alone. Once, at the
  // start. Errors: RESOURCE_EXHAUSTED (the budget has no room for the names).
  absl::Status Restore();

  // Takes `bytes` of the budget. RESOURCE_EXHAUSTED names the bytes asked for,
  // the bytes in use and the budget; the latter two are others' too, and left
  // out for a caller who does not manage all. With a state directory layers
  // leave memory for it, as ChooseVictims says.
  absl::StatusOr<ByteReservation> Reserve(const Principal* caller,
                                          int64_t bytes);
  // The same, if there is room without that and nobody waits for some.
  absl::StatusOr<ByteReservation> ReserveFree(int64_t bytes);

  // Room for a layer that is on the disk alone: its memory, which some request
  // still used, or else a reservation.
  struct Room {
    std::shared_ptr<const ResidentWeights> resident;
    ByteReservation reservation;
  };
  // Waits its turn, and then until layers have left memory for the bytes, those
  // in use too: their bytes come back with their last user. `patience` is asked
  // again after RingRoom. Errors: RESOURCE_EXHAUSTED (what stays in memory
  // leaves no such room, however long one waits, or it may wait for users
  // alone), CANCELLED (it may wait no longer, or `held` is no more the layer's
  // record).
  absl::StatusOr<Room> AwaitRoom(const Weights& held, int64_t bytes,
                                 absl::FunctionRef<RoomPatience()> patience);
  void RingRoom() { room_->Ring(); }

  // The layer's memory for a program, which keeps it there with the copies of
  // the pointer.
  std::shared_ptr<const ResidentWeights> Hold(const Weights& weights) const;

  // Gives up an upload that waits to be continued, of that client alone if it
  // is not null; false if there is none.
  using GiveUp = std::function<bool(const std::string* owner)>;
  // Lets reservations without room make uploads that wait to be continued give
  // way. Null: there are none.
  void SetGiveUp(GiveUp give_up);
  // The same for more bytes of a reservation, or fewer.
  static absl::Status Resize(const Principal* caller, int64_t bytes,
                             ByteReservation* reservation);

  // Counts bytes of an upload in progress for the caller. RESOURCE_EXHAUSTED if
  // that would be beyond its quota.
  absl::StatusOr<OwnerAccounts::Charge> ChargeUpload(const Principal* caller,
                                                     int64_t bytes);

  // Returns OK if Commit would bind now: for an upload's header, before its
  // bytes are sent. `id` is empty if it is not known yet. Errors: Commit's.
  absl::Status CheckCommit(const Principal* caller, const NameBinding& binding,
                           const std::string& id) const {
    return layers_.CheckCommit(caller, binding, id);
  }

  // Makes the weights visible, binds the name, and returns their record. If the
  // id is held already, that record stays and is returned, and `weights` is
  // dropped. On an error nothing changes. Errors: NamedStore::Commit's.
  absl::StatusOr<std::shared_ptr<const Weights>> Commit(
      const Principal* caller, Weights weights, ByteReservation reservation,
      const NameBinding& binding);

  // Binds the name to the weights of `id` and returns them; null if the caller
  // sees none. Errors: Commit's.
  absl::StatusOr<std::shared_ptr<const Weights>> BindIfHeld(
      const Principal* caller, const std::string& id,
      const NameBinding& binding) {
    return layers_.BindIfHeld(caller, id, binding);
  }

  // Look weights up by name or id. NOT_FOUND names the argument.
  absl::StatusOr<std::shared_ptr<const Weights>> Find(
      const Principal* caller, absl::string_view name_or_id) const {
    return layers_.Find(caller, name_or_id);
  }
  // The same for a request, which counts as a use of the layer.
  absl::StatusOr<std::shared_ptr<const Weights>> FindToUse(
      const Principal* caller, absl::string_view name_or_id) const;
  // The same for several, names or ids, all or none of them; they stay in
  // memory for `lease`, if that is not 0.
  using Layers = std::vector<std::shared_ptr<const Weights>>;
  absl::StatusOr<Layers> Touch(const Principal* caller,
                               absl::Span<const std::string> weights,
                               absl::Duration lease) const;
  // Keeps layers in memory until they are unpinned, or the caller holds them no
  // more, or the server ends. Errors: NOT_FOUND, PERMISSION_DENIED (the caller
  // does not hold one of them); nothing has changed then.
  absl::StatusOr<Layers> Pin(const Principal* caller,
                             absl::Span<const std::string> weights);
  // Ends the caller's pins; those of all for one that manages all.
  absl::Status Unpin(const Principal* caller,
                     absl::Span<const std::string> weights);
  // With its names that come after `names_after`, in the order of bytes.
  absl::StatusOr<NamedWeights> Get(const Principal* caller,
                                   absl::string_view name_or_id,
                                   absl::string_view names_after = "") const {
    return layers_.Get(caller, name_or_id, names_after);
  }

  // Returns up to `max_layers` layers as NamedStore::List does.
  WeightsPage List(const Principal* caller, absl::string_view after,
                   int64_t max_layers, absl::string_view prefix = "") const {
    return layers_.List(caller, after, max_layers, prefix);
  }

  // Begins the file of an upload, which another process can continue by the
  // key, if there is one; null without a state directory. Errors:
  // RESOURCE_EXHAUSTED (--state_bytes, the disk), the disk's.
  absl::StatusOr<std::unique_ptr<StateDirectory::Upload>> BeginFile(
      const Principal* caller, const WeightsSpec& spec,
      const UploadKey* key = nullptr);

  // Puts a whole upload's file on the disk; keeps nothing for a null one. The
  // hold goes when the layer is committed. Errors: the disk's.
  absl::StatusOr<StateDirectory::FileHold> KeepFile(
      std::unique_ptr<StateDirectory::Upload> file, const Sha256Digest& id);

  // Puts memory to a layer that has been brought from the disk, and returns its
  // record; that of another thread that was first, or null if the layer was
  // unloaded meanwhile. `held` is the record that it had.
  std::shared_ptr<const Weights> MakeResident(
      const std::shared_ptr<const Weights>& held,
      std::shared_ptr<const ResidentWeights> resident,
      ByteReservation reservation);

  // The same with memory that AwaitRoom has found.
  std::shared_ptr<const Weights> Revive(
      const std::shared_ptr<const Weights>& held,
      std::shared_ptr<const ResidentWeights> resident);

  // All layers, in the order of their ids.
  std::vector<std::shared_ptr<const Weights>> layers() const {
    return layers_.records();
  }

  // Grows when a layer comes to memory.
  int64_t arrivals() const { return arrivals_.load(std::memory_order_relaxed); }

  // Null without one.
  StateDirectory* state() const { return state_.directory; }
  // There must be one.
  StateFigures state_figures() const;
  // May be null.
  ServerMetrics* metrics() const { return metrics_; }

  // Drops a name, or for an id the caller's names of it, as NamedStore::Unload
  // does. Returns true if the caller finds the weights no more.
  absl::StatusOr<bool> Unload(const Principal* caller,
                              absl::string_view name_or_id,
                              absl::string_view if_match = "") {
    auto unloaded = layers_.Unload(caller, name_or_id, if_match);
    room_->Ring();  // a pin may have ended
    return unloaded;
  }

  // Drops names of the caller that begin with the prefix, as NamedStore has it.
  absl::StatusOr<DroppedNames> UnloadPrefix(const Principal* caller,
                                            absl::string_view prefix,
                                            int64_t max_names) {
    auto dropped = layers_.UnloadPrefix(caller, prefix, max_names);
    room_->Ring();
    return dropped;
  }

  // Ends the caller's pins and all leases of a layer that it may unload, and
  // drops its memory if nobody else holds or pins it and no program does; it
  // stays on the disk and its names bound. Errors: Unload's,
  // FAILED_PRECONDITION (no state directory).
  absl::Status UnloadToDisk(const Principal* caller,
                            absl::string_view name_or_id,
                            absl::string_view if_match = "");

  // Bytes in use, and the most that may be: of all, or those that count for a
  // caller who does not manage all. 0: no limit.
  int64_t used_bytes(const Principal* caller) const;
  int64_t limit_bytes(const Principal* caller) const;

  int64_t budget_bytes() const { return limits_.budget_bytes; }
  int64_t reserved_bytes() const { return budget_.used_bytes(); }

  // Counts what clients hold; of programs too.
  OwnerAccounts* accounts() { return &accounts_; }

 private:
  // Layers in memory, and what decides which of them go.
  struct Candidates {
    Layers layers;
    std::vector<EvictionCandidate> figures;
  };
  Candidates ResidentLayers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(room_mutex_);
  // Drop the memory of layers that are on the disk; false for one that has
  // another record by now.
  bool Evict(const std::shared_ptr<const Weights>& layer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(room_mutex_);
  void Evict(const Candidates& candidates, const std::vector<size_t>& victims)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(room_mutex_);
  void EndPins(const Principal* caller, const std::string& id);
  // Sends layers to the disk so that so many bytes come back, if that can be.
  void MakeRoom(int64_t bytes);
  // Layers that have left their record and that somebody still uses.
  struct LeavingLayer {
    std::weak_ptr<const ResidentWeights> memory;
    int64_t bytes;
    std::shared_ptr<LayerUse> use;
  };
  struct LeavingBytes {
    int64_t soon = 0;  // come back with the last request
    int64_t held = 0;  // by programs that were faster
  };
  LeavingBytes BytesOfLeaving() ABSL_EXCLUSIVE_LOCKS_REQUIRED(room_mutex_);

  struct Departure {
    bool is_enough = false;  // the bytes are there, or come with the last users
    absl::Time next = absl::InfiniteFuture();  // when more may leave
  };
  // Sends layers to the disk for one that waits. Errors: RESOURCE_EXHAUSTED
  // (AwaitRoom's).
  absl::StatusOr<Departure> SendAway(int64_t bytes);
  bool GiveUpOne(const std::string* owner);
  // Returns a pointer to the layer whose last copy gives back its reservation,
  // and its entry in what outlives the process. The weights have the layer.
  std::shared_ptr<const ResidentWeights> WithBudget(
      const Weights& weights, ByteReservation reservation) const;
  // Puts a record with memory in the place of one without; returns what
  // MakeResident does.
  std::shared_ptr<const Weights> Replace(
      const std::shared_ptr<const Weights>& held,
      std::shared_ptr<const Weights> loaded);
  absl::StatusOr<Layers> FindAll(const Principal* caller,
                                 absl::Span<const std::string> weights) const;
  // Ids of the layers that are pinned, by a flag or by clients. Forgets pins of
  // clients that do not hold theirs any more.
  std::set<std::string> PinnedIds();

  ServerMetrics* const metrics_;
  const StateTier state_;
  const StoreLimits limits_;
  // Rung whenever there may be more room. Of all that give some back, which may
  // outlive the store.
  const std::shared_ptr<RoomQueue> room_;
  ByteBudget budget_;
  OwnerAccounts accounts_;
  NamedStore<Weights> layers_;
  mutable std::atomic<int64_t> arrivals_{0};
  Mutex room_mutex_;  // one makes room at a time
  std::vector<LeavingLayer> leaving_ ABSL_GUARDED_BY(room_mutex_);
  Mutex pins_mutex_;
  // The client's id, empty for one that manages all, and the layer's.
  std::set<std::pair<std::string, std::string>> pins_
      ABSL_GUARDED_BY(pins_mutex_);
  Mutex give_up_mutex_;
  GiveUp give_up_ ABSL_GUARDED_BY(give_up_mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_WEIGHT_STORE_H_
