// SPDX-License-Identifier: Apache-2.0
//
// Brings layers from the disk into the backend's memory: all of them after a
// start, and those that requests wait for before any other. Or takes over those
// that the last server left in memory.

#ifndef QGEMM_SERVER_WEIGHTS_LAYER_LOADER_H_
#define QGEMM_SERVER_WEIGHTS_LAYER_LOADER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "kernels/matrix/backend.h"
#include "server/keep/kept_layers.h"
#include "server/weights/weight_store.h"

namespace qgemm {

struct LayerLoaderOptions {
  int threads = 1;  // each reads, checks and repacks one layer at a time
  // Names whose layers come first at the start.
  std::vector<std::string> first_names;
};

// Layers of the start that have neither come nor failed to.
struct LoadingLayers {
  int64_t all = 0;
  int64_t first = 0;  // of those that first_names have
};

// Thread-safe.
class LayerLoader {
 public:
  using Result = absl::StatusOr<std::shared_ptr<const Weights>>;
  // Runs once, on any thread, with the layer in memory. Errors: NOT_FOUND
  // (unloaded meanwhile), RESOURCE_EXHAUSTED (what stays in memory leaves no
  // room for it, however long one waits), DATA_LOSS (its file was damaged: its
  // names are gone), UNAVAILABLE (the loader stops), the disk's.
  using Loaded = absl::AnyInvocable<void(Result result)>;

  // The store has a state directory. Both must outlive the loader.
  LayerLoader(Backend* backend, WeightStore* store,
              const LayerLoaderOptions& options);
  LayerLoader(const LayerLoader&) = delete;
  LayerLoader& operator=(const LayerLoader&) = delete;
  // Stops.
  ~LayerLoader();

  // Begins to bring what the store has on the disk. Once. A layer for which
  // there is no room stays there.
  void Start();

  // One who waits for a layer.
  using Ticket = int64_t;

  // Brings a layer before those of the start. It waits for room, and those that
  // are asked for after it wait behind it.
  Ticket Fetch(const std::string& id, Loaded loaded);

  // Ends the wait: `loaded` runs no more, unless it does already.
  void Leave(const std::string& id, Ticket ticket);

  // Fetches a layer and waits for it. RESOURCE_EXHAUSTED if it has not come
  // within that time.
  Result Await(const std::string& id, absl::Duration at_most);

  // Brings a layer that nobody waits for yet, if there is room or requests in
  // progress give some back.
  void Bring(const std::string& id);

  // Brings nothing more, and ends those that wait. Returns once no function of
  // Fetch runs any more. May be repeated.
  void Stop();

  LoadingLayers loading() const;

  // Forgets a layer whose file is damaged, unless it has a sound one by now:
  // the file is set aside and its names are unbound.
  void Forget(const std::string& id, const absl::Status& error);

 private:
  struct Job {
    bool is_running = false;
    bool is_asked_for = false;                    // by Bring
    RoomPatience patience = RoomPatience::kNone;  // the latest
    std::map<Ticket, Loaded> waiting;

    // Others leave memory for it.
    bool is_urgent() const { return is_asked_for || !waiting.empty(); }
  };

  struct Picked {
    std::string id;
    bool is_urgent = false;
  };

  void Run();
  // The next layer to bring, whose job runs from then on; none once stopped.
  std::optional<Picked> AwaitJob();
  std::optional<Picked> TakeJob() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndJob(const Picked& picked, const Result& result);
  // Puts a job that has ended without its layer to where it is due again, if it
  // is.
  bool IsQueuedAgain(const Picked& picked, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Queue(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Patience of a job that is running and needs room.
  RoomPatience PatienceFor(const std::string& id);
  Result Load(const Picked& picked);
  Result LoadFrom(const std::shared_ptr<const Weights>& held, bool is_urgent);
  absl::StatusOr<WeightStore::Room> RoomFor(const Weights& held,
                                            bool is_urgent);
  using Resident = absl::StatusOr<std::shared_ptr<const ResidentWeights>>;
  // Reads the layer's image, or else its upload.
  Resident Build(const Weights& held);
  Resident BuildFromImage(const Weights& held);
  Resident BuildFromUpload(const Weights& held);
  Backend* const backend_;
  WeightStore* const store_;
  const LayerLoaderOptions options_;
  std::atomic<bool> stopping_{false};
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  Ticket next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::string> urgent_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> background_ ABSL_GUARDED_BY(mutex_);
  // Layers of the start.
  std::set<std::string> loading_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> loading_first_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

// Layers that the last server left in memory.
struct InheritedLayers {
  int64_t layers = 0;
  int64_t bytes = 0;
  int64_t dropped_layers = 0;  // of sound records
  absl::Duration took;
};

// Makes the layers resident whose names the store has and whose bytes are what
// they were, and drops the others. `threads` of them read at one time. Once,
// before the store is used.
InheritedLayers InheritLayers(int threads, KeptLayers* kept,
                              WeightStore* store);

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_LAYER_LOADER_H_
