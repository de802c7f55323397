// SPDX-License-Identifier: Apache-2.0
//
// Serves the metrics as Prometheus text over HTTP, at /metrics.

#ifndef QGEMM_SERVER_METRICS_METRICS_ENDPOINT_H_
#define QGEMM_SERVER_METRICS_METRICS_ENDPOINT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/metrics/server_metrics.h"

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace qgemm {

// Listens from Start until destruction, on threads of its own.
class MetricsEndpoint {
 public:
  // `listen` is "host:port", the host a numeric address (IPv6 in brackets) or
  // "localhost"; port 0 takes a free one. `metrics` may go first.
  // Errors: INVALID_ARGUMENT (not host:port), FAILED_PRECONDITION (the port is
  // in use or privileged).
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      absl::string_view listen, const ServerMetrics& metrics);

  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;
  ~MetricsEndpoint();

  // Returns the port it listens on.
  int port() const { return port_; }

 private:
  MetricsEndpoint(std::shared_ptr<prometheus::Collectable> registry,
                  std::unique_ptr<prometheus::Exposer> exposer, int port);

  const std::shared_ptr<prometheus::Collectable> registry_;
  const std::unique_ptr<prometheus::Exposer> exposer_;
  const int port_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_METRICS_ENDPOINT_H_
