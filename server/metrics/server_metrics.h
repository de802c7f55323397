// SPDX-License-Identifier: Apache-2.0
//
// What the server counts, under the names that docs/metrics.md explains. The
// text endpoint is in metrics_endpoint.h.

#ifndef QGEMM_SERVER_METRICS_SERVER_METRICS_H_
#define QGEMM_SERVER_METRICS_SERVER_METRICS_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/metrics/drop_reason.h"
#include "server/metrics/request_stages.h"

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace qgemm {

// A launch that succeeded.
struct LaunchFigures {
  int64_t rows = 0;
  int64_t requests = 0;
  absl::Duration queue;  // the wait of its oldest request
  absl::Duration kernel;
};

// Of the backend's own accounting.
struct MemoryFigures {
  int64_t weights_bytes = 0;
  int64_t staging_bytes = 0;         // in use and kept for reuse
  int64_t staging_in_use_bytes = 0;  // operands of requests
};

// Thread-safe; every method is cheap enough for the hot path.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();

  // One request of an RPC ended; `method` is "Gemm", "LoadWeights", ….
  void RpcEnded(absl::string_view method, absl::StatusCode code,
                absl::Duration latency);
  // What waits for a launch.
  void SetQueueDepth(int64_t requests, int64_t rows, int64_t bytes);
  void SetLaunchesInFlight(int64_t launches);
  // A request was taken into the queue. Each ends by one of the next three.
  void RequestAccepted(int64_t rows);
  // Also of requests that were never accepted: stage kAdmission.
  void RequestDropped(DropReason reason, DropStage stage);
  void RequestComputed(int64_t rows, const RequestStages& stages);
  // Its launch was refused by the backend or failed there.
  void RequestFailed();
  // A request was computed although by then nobody waited for it: kDeadline or
  // kCancelled.
  void RequestWasted(DropReason reason);
  void LaunchEnded(const LaunchFigures& launch);
  // A launch was refused by the backend or failed there.
  void LaunchFailed(absl::StatusCode code);
  // Asked for at each scrape, from any thread, until it is replaced by null.
  void SampleMemory(absl::AnyInvocable<MemoryFigures()> sample);
  // Layers that are visible, and bytes of the weights budget that are held:
  // resident layers, layers that launches still use, uploads in progress.
  void SetWeights(int64_t count, int64_t bytes);
  void SetWeightsCount(int64_t count);
  void SetWeightsBytes(int64_t bytes);
  // 0 = no limit.
  void SetWeightsBudget(int64_t bytes);
  void AddUploadedBytes(int64_t bytes);

  // For the endpoint; stays when the metrics go.
  std::shared_ptr<prometheus::Collectable> registry() const;

 private:
  struct Families;
  const std::shared_ptr<Families> families_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_SERVER_METRICS_H_
