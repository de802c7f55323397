// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/metrics_endpoint.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/metrics/http_client.h"

namespace qgemm {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::unique_ptr<MetricsEndpoint> StartEndpoint(const ServerMetrics& metrics) {
  auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", &metrics);
  EXPECT_TRUE(endpoint.ok()) << endpoint.status();
  return *std::move(endpoint);
}

TEST(MetricsEndpointTest, ServesTheTextOnTheReportedPort) {
  ServerMetrics metrics;
  metrics.SetQueueDepth(12, 0, 0);
  const auto endpoint = StartEndpoint(metrics);
  const std::string answer = HttpGet(endpoint->port(), "/metrics");
  EXPECT_THAT(answer, HasSubstr("\nqgemm_queue_requests 12"));
  EXPECT_THAT(answer, HasSubstr("\nprocess_open_fds "));
  EXPECT_THAT(answer, HasSubstr("text/plain; version=0.0.4"));
}

TEST(MetricsEndpointTest, ListensOnLocalhost) {
  ServerMetrics metrics;
  const auto endpoint = MetricsEndpoint::Start("localhost:0", &metrics);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_THAT(HttpGet((*endpoint)->port(), "/metrics"), HasSubstr("200 OK"));
}

TEST(MetricsEndpointTest, LivenessAndReadinessFollowTheHealth) {
  ServerMetrics metrics;
  const auto endpoint = StartEndpoint(metrics);
  const struct {
    HealthState state;
    const char* reason;
    const char* live;
    const char* ready;
    const char* body;
  } cases[] = {
      {HealthState::kStarting, "", "200", "503", "\r\n\r\nstarting\n"},
      {HealthState::kServing, "", "200", "200", "\r\n\r\nserving\n"},
      {HealthState::kDraining, "SIGTERM", "200", "503",
       "\r\n\r\ndraining: SIGTERM\n"},
      {HealthState::kFailed, "the GPU is gone", "503", "503",
       "\r\n\r\nfailed: the GPU is gone\n"},
  };
  for (const auto& [state, reason, live, ready, body] : cases) {
    SCOPED_TRACE(body);
    metrics.SetHealth(state, reason);
    const std::string liveness = HttpGet(endpoint->port(), "/livez");
    EXPECT_THAT(liveness, StartsWith(absl::StrCat("HTTP/1.1 ", live, " ")));
    EXPECT_THAT(liveness, EndsWith(body));
    const std::string readiness = HttpGet(endpoint->port(), "/readyz");
    EXPECT_THAT(readiness, StartsWith(absl::StrCat("HTTP/1.1 ", ready, " ")));
    EXPECT_THAT(readiness, EndsWith(body));
  }
}

TEST(MetricsEndpointTest, ServesTheStatusPage) {
  ServerMetrics metrics;
  const auto endpoint = StartEndpoint(metrics);
  const std::string answer = HttpGet(endpoint->port(), "/");
  EXPECT_THAT(answer, HasSubstr("<h1>qgemm_server"));
  EXPECT_THAT(answer, HasSubstr("script-src 'sha256-"));
}

TEST(MetricsEndpointTest, OtherPathsAreNotFound) {
  ServerMetrics metrics;
  const auto endpoint = StartEndpoint(metrics);
  for (const char* path : {"/favicon.ico", "/metrics/", "/../etc/passwd",
                           "/%2e%2e/etc/passwd", "//metrics"}) {
    EXPECT_THAT(HttpGet(endpoint->port(), path), StartsWith("HTTP/1.1 404 "))
        << path;
  }
}

TEST(MetricsEndpointTest, RefusesNamesThatWereReboundToThisMachine) {
  ServerMetrics metrics;
  const auto endpoint = StartEndpoint(metrics);
  const int port = endpoint->port();
  for (const char* path : {"/metrics", "/", "/livez"}) {
    EXPECT_THAT(HttpGet(port, path, "Host: evil.example\r\n"),
                StartsWith("HTTP/1.1 421 "));
    EXPECT_THAT(
        HttpGet(port, path, absl::StrCat("Host: 127.0.0.1:", port, "\r\n")),
        StartsWith("HTTP/1.1 "));
  }
}

TEST(MetricsEndpointTest, StopsListeningWhenDestroyed) {
  ServerMetrics metrics;
  auto endpoint = StartEndpoint(metrics);
  const int port = endpoint->port();
  endpoint.reset();
  EXPECT_EQ(HttpGet(port, "/metrics"), "");
}

TEST(MetricsEndpointTest, PortInUseIsAnErrorThatNamesTheAddress) {
  ServerMetrics metrics;
  const auto first = StartEndpoint(metrics);
  const std::string address = absl::StrCat("127.0.0.1:", first->port());
  const auto second = MetricsEndpoint::Start(address, &metrics);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(), HasSubstr(address));
}

TEST(MetricsEndpointTest, RefusesWhatIsNotHostAndPort) {
  ServerMetrics metrics;
  for (const char* listen :
       {"", "9090", ":9090", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
        "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:443s",
        "127.0.0.1:80,127.0.0.1:81", "unix:/tmp/metrics", "name.example:80"}) {
    SCOPED_TRACE(listen);
    EXPECT_EQ(MetricsEndpoint::Start(listen, &metrics).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace qgemm
