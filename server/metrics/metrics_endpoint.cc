// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/metrics_endpoint.h"

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

struct HostAndPort {
  std::string host;  // an IPv6 address in its brackets
  int port = 0;
};

absl::StatusOr<HostAndPort> ParseListen(absl::string_view listen) {
  const absl::Status refused = absl::InvalidArgumentError(
      absl::StrCat("metrics address \"", listen,
                   "\": expected host:port with a numeric host and a port "
                   "from 0 to 65535"));
  const size_t colon = listen.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return refused;
  HostAndPort parsed{std::string(listen.substr(0, colon))};
  if (!absl::SimpleAtoi(listen.substr(colon + 1), &parsed.port) ||
      parsed.port < 0 || parsed.port > 65535) {
    return refused;
  }
  return parsed;
}

// Returns the address for the system: without brackets, no name.
std::string NumericHost(const std::string& host) {
  if (host == "localhost") return "127.0.0.1";
  if (host.front() == '[' && host.back() == ']') {
    return host.substr(1, host.size() - 2);
  }
  return host;
}

HttpResponse Text(int code, std::string body) {
  HttpResponse response;
  response.code = code;
  response.body = std::move(body);
  return response;
}

HttpResponse Health(const HealthReport& health, bool well) {
  return Text(well ? 200 : 503, absl::StrCat(NameOf(health.state),
                                             health.reason.empty() ? "" : ": ",
                                             health.reason, "\n"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    absl::string_view listen, const ServerMetrics* metrics,
    std::unique_ptr<GpuSampler> gpus) {
  ASSIGN_OR_RETURN(const HostAndPort address, ParseListen(listen));
  std::unique_ptr<MetricsEndpoint> endpoint(
      new MetricsEndpoint(address.host, metrics, std::move(gpus)));
  auto server = HttpServer::Start(
      NumericHost(address.host), address.port,
      [endpoint = endpoint.get()](const HttpRequest& request) {
        return endpoint->Answer(request);
      },
      &endpoint->clock_);
  if (!server.ok()) {
    return absl::Status(server.status().code(),
                        absl::StrCat("listen for metrics on ", listen, ": ",
                                     server.status().message()));
  }
  endpoint->server_ = *std::move(server);
  return endpoint;
}

MetricsEndpoint::MetricsEndpoint(std::string host, const ServerMetrics* metrics,
                                 std::unique_ptr<GpuSampler> gpus)
    : host_(std::move(host)), metrics_(metrics), gpus_(std::move(gpus)) {}

HttpResponse MetricsEndpoint::Answer(const HttpRequest& request) {
  if (!IsHostAllowed(request.host, host_)) {
    return Text(421,
                "the Host header names neither an address nor localhost\n");
  }
  const HealthReport health = metrics_->health();
  if (request.path == "/livez") {
    return Health(health, health.state != HealthState::kFailed);
  }
  if (request.path == "/readyz") {
    return Health(health, health.state == HealthState::kServing);
  }
  if (request.path == "/metrics") {
    HttpResponse response =
        Text(200, prometheus::TextSerializer().Serialize(Collect()));
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return response;
  }
  if (request.path == "/") {
    return status_page_.Render(Collect(), health, clock_.Now(), absl::Now());
  }
  return Text(404, "there are /, /metrics, /livez and /readyz\n");
}

MetricFamilies MetricsEndpoint::Collect() const {
  MetricFamilies families = metrics_->registry()->Collect();
  CollectProcess(&families);
  if (gpus_ != nullptr) gpus_->Collect(&families);
  return families;
}

}  // namespace qgemm
