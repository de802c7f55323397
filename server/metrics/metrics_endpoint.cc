// SPDX-License-Identifier: Apache-2.0
//
// Address checks, then civetweb by prometheus::Exposer.

#include "server/metrics/metrics_endpoint.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// The HTTP server understands commas, and suffixes that mean TLS and
// redirects, so only a plain host:port is passed to it.
absl::Status CheckListen(absl::string_view listen) {
  const absl::Status refused = absl::InvalidArgumentError(
      absl::StrCat("metrics address \"", listen,
                   "\": expected host:port with a numeric host and a port "
                   "from 0 to 65535"));
  const size_t colon = listen.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return refused;
  for (const char c : listen.substr(0, colon)) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != ':' && c != '[' &&
        c != ']') {
      return refused;
    }
  }
  const absl::string_view digits = listen.substr(colon + 1);
  for (const char c : digits) {
    if (!absl::ascii_isdigit(c)) return refused;
  }
  int port = -1;
  if (!absl::SimpleAtoi(digits, &port) || port > 65535) return refused;
  return absl::OkStatus();
}

// Turns the exception by which the HTTP server reports a failed bind into a
// status.
absl::StatusOr<std::unique_ptr<prometheus::Exposer>> Listen(
    absl::string_view listen) {
  const std::string address =
      absl::StrReplaceAll(listen, {{"localhost:", "127.0.0.1:"}});
  try {
    return std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", "2"});
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("listen for metrics on ", listen, ": ", error.what()));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    absl::string_view listen, const ServerMetrics& metrics) {
  RETURN_IF_ERROR(CheckListen(listen));
  ASSIGN_OR_RETURN(auto exposer, Listen(listen));
  const std::vector<int> ports = exposer->GetListeningPorts();
  if (ports.size() != 1) {
    return absl::InternalError(absl::StrCat("listen for metrics on ", listen,
                                            ": ", ports.size(), " sockets"));
  }
  std::shared_ptr<prometheus::Collectable> registry = metrics.registry();
  exposer->RegisterCollectable(registry);
  return std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(
      std::move(registry), std::move(exposer), ports.front()));
}

MetricsEndpoint::MetricsEndpoint(
    std::shared_ptr<prometheus::Collectable> registry,
    std::unique_ptr<prometheus::Exposer> exposer, int port)
    : registry_(std::move(registry)),
      exposer_(std::move(exposer)),
      port_(port) {}

MetricsEndpoint::~MetricsEndpoint() = default;

}  // namespace qgemm
