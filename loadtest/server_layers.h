// SPDX-License-Identifier: Apache-2.0
//
// Layers of a load test on the server, and programs over them: those under load
// are found or uploaded before, and removed after; other layers come and go
// meanwhile (--churn).

#ifndef QGEMM_LOADTEST_SERVER_LAYERS_H_
#define QGEMM_LOADTEST_SERVER_LAYERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/matrix/canonical_weights.h"
#include "loadtest/load_set.h"
#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"
#include "loadtest/workload/synthetic_layers.h"
#include "qgemm/client.h"

namespace qgemm::loadtest {

// Prepare, then TearDown, whatever Prepare returned. Not thread-safe.
class LayerSetup {
 public:
  // Layers that this run both uploads and removes get names of its own, so that
  // load tests at one server do not remove each other's; else SyntheticName's.
  explicit LayerSetup(const LoadtestOptions& options);

  // Uploads or looks up every layer, `progress` after each; then registers the
  // programs, which is free where the server has them. Errors: NOT_FOUND (a
  // name that is not there), the upload's and the registration's; CANCELLED
  // once `stop` is true.
  absl::Status Prepare(Client* client, const std::atomic<bool>& stop,
                       const std::function<void(int done, int all)>& progress);

  // Removes the run's programs and layers unless --teardown=false; the first
  // error, after trying all. `client` is null if the server is gone.
  absl::Status TearDown(Client* client);

  // The layers, and the programs of --program_walk.
  const LoadTargets& targets() const { return targets_; }

  // The canonical form that the server made of a layer, made again.
  // FAILED_PRECONDITION if the layer is not synthetic.
  absl::StatusOr<CanonicalWeights> Canonical(int layer);

 private:
  absl::Status Upload(Client* client, int layer);
  absl::Status RegisterPrograms(Client* client);

  const LoadtestOptions options_;
  std::vector<std::string> names_;
  LoadTargets targets_;
  std::vector<SyntheticLayer> synthetic_;  // empty for named weights
  SyntheticLayers maker_;
  int uploaded_ = 0;
};

// A thread that uploads a synthetic layer at a steady rate, each with bytes of
// its own, and unloads the one before. Uploads that take longer than their
// interval follow each other at once.
class Churn {
 public:
  // `client` must outlive it.
  Churn(const LoadtestOptions& options, Client* client);
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;
  ~Churn();

  // Ends the thread, unloads what is left, and adds uploads and errors to the
  // result. Once.
  void StopInto(RunResult* result);

 private:
  void Run();
  void Upload(int64_t number);
  // False once stopped.
  bool WaitUntil(absl::Time time);
  void UnloadResident();
  // True for OK; counts anything else.
  bool Succeeded(const absl::Status& status);
  void Join();

  const LoadtestOptions options_;
  Client* const client_;
  SyntheticLayers maker_;
  const std::string prefix_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // Owned by the thread until it has ended.
  int64_t uploads_ = 0;
  std::string resident_;  // empty: none
  ErrorTallies errors_;
  std::thread thread_;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_SERVER_LAYERS_H_
