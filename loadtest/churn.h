// SPDX-License-Identifier: Apache-2.0
//
// Uploads that come and go while requests are measured.

#ifndef QGEMM_LOADTEST_CHURN_H_
#define QGEMM_LOADTEST_CHURN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "loadtest/options.h"
#include "loadtest/report/run_result.h"
#include "loadtest/workload/synthetic_layers.h"
#include "loadtest/workload/synthetic_name.h"
#include "qgemm/client.h"

namespace qgemm {

// A thread that uploads a synthetic layer at a steady rate, each with bytes of
// its own, and unloads the one before. Uploads that take longer than their
// turn follow each other at once.
class Churn {
 public:
  // `client` must outlive it. Errors: those of making the first layer.
  static absl::StatusOr<std::unique_ptr<Churn>> Start(
      const LoadtestOptions& options, Client* client);
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;
  ~Churn();

  // Ends the thread, unloads what is left, and adds uploads and errors to the
  // result. Once.
  void StopInto(RunResult* result);

 private:
  Churn(const LoadtestOptions& options, Client* client, SyntheticLayers maker);

  void Run();
  void Turn(int64_t number);
  static SyntheticLayer LayerOf(const LoadtestOptions& options, int64_t turn);
  bool AwaitTurn(absl::Time time);
  void Note(const absl::Status& status);
  void Join();

  const LoadtestOptions options_;
  Client* const client_;
  SyntheticLayers maker_;
  const std::string prefix_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t uploads_ = 0;   // of the thread until it has ended
  std::string resident_;  // likewise; empty: nothing is there
  std::map<absl::StatusCode, ErrorTally> errors_;  // likewise
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_CHURN_H_
