// SPDX-License-Identifier: Apache-2.0
//
// The pages of --metrics_listen: metrics for Prometheus, liveness and readiness
// for supervisors and load balancers, the status page for people.

#ifndef QGEMM_SERVER_METRICS_METRICS_ENDPOINT_H_
#define QGEMM_SERVER_METRICS_METRICS_ENDPOINT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "server/metrics/host_families.h"
#include "server/metrics/http_message.h"
#include "server/metrics/http_server.h"
#include "server/metrics/server_metrics.h"
#include "server/metrics/status_page.h"

namespace qgemm {

// Listens from Start until destruction, on a thread of its own.
//   /metrics  Prometheus' text format
//   /livez    200 unless the server has failed and should be restarted, else
//   503 /readyz   200 while it serves, else 503; the body of both says why /
//   the status page
class MetricsEndpoint {
 public:
  // `listen` is "host:port", the host a numeric address (IPv6 in brackets) or
  // "localhost"; port 0 takes a free one. `metrics` must outlive the endpoint;
  // `gpus` may be null.
  // Errors: INVALID_ARGUMENT (not host:port), FAILED_PRECONDITION (the port is
  // in use or privileged).
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      absl::string_view listen, const ServerMetrics* metrics,
      std::unique_ptr<GpuSampler> gpus = nullptr);

  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  // Returns the port it listens on.
  int port() const { return server_->port(); }

 private:
  MetricsEndpoint(std::string host, const ServerMetrics* metrics,
                  std::unique_ptr<GpuSampler> gpus);

  // Runs on the server's thread.
  HttpResponse Answer(const HttpRequest& request);
  MetricFamilies Collect() const;

  const std::string host_;  // as configured
  const ServerMetrics* const metrics_;
  const std::unique_ptr<GpuSampler> gpus_;
  const SteadyClock clock_;
  StatusPage status_page_;
  std::unique_ptr<HttpServer> server_;  // stops first
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_METRICS_ENDPOINT_H_
