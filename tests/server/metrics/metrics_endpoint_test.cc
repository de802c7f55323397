// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/metrics_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

// The answer to GET `path` from the loopback port, header included; empty if
// nobody listens.
std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
      0) {
    const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\n\r\n");
    EXPECT_EQ(send(fd, request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    char buffer[4096];
    for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, n);
    }
  }
  close(fd);
  return answer;
}

TEST(MetricsEndpointTest, ServesTheTextOnTheReportedPort) {
  ServerMetrics metrics;
  metrics.SetQueueDepth(12, 0, 0);
  const auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", metrics);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const std::string answer = HttpGet((*endpoint)->port(), "/metrics");
  EXPECT_THAT(answer, HasSubstr("\nqgemm_queue_requests 12"));
}

TEST(MetricsEndpointTest, ListensOnLocalhost) {
  ServerMetrics metrics;
  const auto endpoint = MetricsEndpoint::Start("localhost:0", metrics);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_THAT(HttpGet((*endpoint)->port(), "/metrics"), HasSubstr("200 OK"));
}

TEST(MetricsEndpointTest, ServesAfterTheMetricsAreGone) {
  auto metrics = std::make_unique<ServerMetrics>();
  const auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", *metrics);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  metrics.reset();
  EXPECT_THAT(HttpGet((*endpoint)->port(), "/metrics"), HasSubstr("200 OK"));
}

TEST(MetricsEndpointTest, StopsListeningWhenDestroyed) {
  ServerMetrics metrics;
  auto endpoint = MetricsEndpoint::Start("127.0.0.1:0", metrics);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const int port = (*endpoint)->port();
  endpoint->reset();
  EXPECT_EQ(HttpGet(port, "/metrics"), "");
}

TEST(MetricsEndpointTest, PortInUseIsAnErrorThatNamesTheAddress) {
  ServerMetrics metrics;
  const auto first = MetricsEndpoint::Start("127.0.0.1:0", metrics);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*first)->port());
  const auto second = MetricsEndpoint::Start(address, metrics);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(), HasSubstr(address));
}

TEST(MetricsEndpointTest, RefusesWhatIsNotHostAndPort) {
  ServerMetrics metrics;
  for (const char* listen :
       {"", "9090", ":9090", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
        "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:443s",
        "127.0.0.1:80,127.0.0.1:81", "unix:/tmp/metrics"}) {
    SCOPED_TRACE(listen);
    EXPECT_EQ(MetricsEndpoint::Start(listen, metrics).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace qgemm
