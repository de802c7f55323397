// SPDX-License-Identifier: Apache-2.0
//
// Brings layers from the disk into the backend's memory: all of them after a
// start, and those that requests wait for before any other.

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
#include "base/mutex.h"
#include "kernels/matrix/backend.h"
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
  // (unloaded meanwhile), RESOURCE_EXHAUSTED (no room), DATA_LOSS (its file was
  // damaged: its names are gone), UNAVAILABLE (the loader stops), the disk's.
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

  // Brings a layer before those that nobody waits for.
  void Fetch(const std::string& id, Loaded loaded);

  // The same, and waits for it.
  Result Await(const std::string& id);

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
    bool is_urgent = false;  // somebody waits
    std::vector<Loaded> waiting;
  };

  struct Picked {
    std::string id;
    bool is_urgent = false;
  };

  void Run();
  // The next layer to bring, whose job runs from then on; none once stopped.
  std::optional<Picked> AwaitJob();
  void EndJob(const Picked& picked, const Result& result);
  // Others leave memory for an urgent one.
  Result Load(const Picked& picked);
  Result LoadFrom(const std::shared_ptr<const Weights>& held, bool is_urgent);
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Build(
      const Weights& held);
  Backend* const backend_;
  WeightStore* const store_;
  const LayerLoaderOptions options_;
  std::atomic<bool> stopping_{false};
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> urgent_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> background_ ABSL_GUARDED_BY(mutex_);
  // Layers of the start.
  std::set<std::string> loading_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> loading_first_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_LAYER_LOADER_H_
