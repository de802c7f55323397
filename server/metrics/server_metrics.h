// SPDX-License-Identifier: Apache-2.0
//
// What the server counts, under the names that docs/metrics.md explains. The
// text endpoint is in metrics_endpoint.h.

#ifndef QGEMM_SERVER_METRICS_SERVER_METRICS_H_
#define QGEMM_SERVER_METRICS_SERVER_METRICS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace qgemm {

// Thread-safe; every method is cheap enough for the hot path.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();

  // One request of an RPC ended; `method` is "Gemm", "LoadWeights", ….
  void RpcEnded(absl::string_view method, absl::StatusCode code,
                absl::Duration latency);
  // Requests and bytes waiting for a launch.
  void SetQueueDepth(int64_t requests, int64_t bytes);
  // A request was refused or dropped before its launch: "queue_full",
  // "draining", "deadline", "cancelled".
  void RequestDropped(absl::string_view reason);
  // A launch succeeded; `queue` is the wait of its oldest request.
  void LaunchEnded(int64_t rows, int64_t requests, absl::Duration queue,
                   absl::Duration kernel);
  // A launch was refused by the backend or failed there.
  void LaunchFailed(absl::StatusCode code);
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
