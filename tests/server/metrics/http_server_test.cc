// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/http_server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/metrics/http_client.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Its clock stands still: no connection ever times out by itself.
class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    auto server = HttpServer::Start(
        "127.0.0.1", 0,
        [](const HttpRequest& request) {
          HttpResponse response;
          response.body = request.path == "/large" ? std::string(kLarge, 'x')
                                                   : request.path;
          return response;
        },
        &clock_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int port() const { return server_->port(); }

  std::vector<std::unique_ptr<HttpClient>> HalfRequests(int count) const {
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<HttpClient>(port()));
      clients.back()->Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ");
    }
    return clients;
  }

  // More than the buffers of two sockets hold.
  static constexpr size_t kLarge = size_t{16} << 20;

  FakeClock clock_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAndCloses) {
  EXPECT_THAT(HttpGet(port(), "/path"), HasSubstr("\r\n\r\n/path"));
}

TEST_F(HttpServerTest, ReadsARequestByteByByte) {
  const HttpClient client(port());
  for (const char byte : std::string("GET /path HTTP/1.1\r\n\r\n")) {
    ASSERT_TRUE(client.Send({&byte, 1}));
  }
  EXPECT_THAT(client.ReadAll(), HasSubstr("\r\n\r\n/path"));
}

TEST_F(HttpServerTest, AnswersBesideAHundredHalfRequests) {
  const auto half = HalfRequests(100);
  EXPECT_THAT(HttpGet(port(), "/path"), HasSubstr("\r\n\r\n/path"));
}

TEST_F(HttpServerTest, AnswersBesideMoreHalfRequestsThanItHolds) {
  const auto half = HalfRequests(3 * HttpServer::kMaxConnections);
  EXPECT_THAT(HttpGet(port(), "/path"), HasSubstr("\r\n\r\n/path"));
}

TEST_F(HttpServerTest, AnswersBesideClientsThatDoNotRead) {
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 3; ++i) {
    idle.push_back(std::make_unique<HttpClient>(port()));
    idle.back()->Send("GET /large HTTP/1.1\r\n\r\n");
  }
  EXPECT_THAT(HttpGet(port(), "/path"), HasSubstr("\r\n\r\n/path"));
}

TEST_F(HttpServerTest, ALargeAnswerArrivesWhole) {
  const std::string answer = HttpGet(port(), "/large");
  EXPECT_THAT(answer.substr(answer.find("\r\n\r\n") + 4), SizeIs(kLarge));
}

TEST_F(HttpServerTest, AHalfRequestIsClosedAfterItsTime) {
  const auto half = HalfRequests(1);
  // Both have been accepted before the time passes.
  EXPECT_THAT(HttpGet(port(), "/path"), HasSubstr("200 OK"));
  clock_.Advance(HttpServer::kRequestTimeout);
  EXPECT_EQ(half.front()->ReadAll(), "");
}

TEST_F(HttpServerTest, BytesNowAndThenGainNoTime) {
  const auto half = HalfRequests(1);
  EXPECT_THAT(HttpGet(port(), "/path"), HasSubstr("200 OK"));
  for (int i = 0; i < 4; ++i) {
    half.front()->Send("x");
    clock_.Advance(HttpServer::kRequestTimeout / 4);
  }
  EXPECT_EQ(half.front()->ReadAll(), "");
}

TEST_F(HttpServerTest, RefusesHeadersWithoutEnd) {
  const HttpClient client(port());
  client.Send("GET / HTTP/1.1\r\nX: ");
  client.Send(std::string(kMaxHttpHeadBytes, 'x'));
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, AnswersARequestWithABodyThatItDoesNotRead) {
  const HttpClient client(port());
  client.Send("POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
  client.Send(std::string(100000, 'x'));
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 405 "));
}

TEST_F(HttpServerTest, StopsWithOpenConnections) {
  const auto half = HalfRequests(10);
  server_.reset();
  EXPECT_EQ(half.back()->ReadAll(), "");
}

TEST_F(HttpServerTest, ServesAgainAfterItRanOutOfFiles) {
  HttpClient client;
  const int server_port = port();  // UBSan's check of a call opens files
  // Every file below the limit is in use.
  const int next = dup(STDIN_FILENO);
  close(next);
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit limit = before;
  limit.rlim_cur = next;
  setrlimit(RLIMIT_NOFILE, &limit);
  client.Connect(server_port);
  client.Send("GET /path HTTP/1.1\r\n\r\n");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(client.ReadAll(), HasSubstr("\r\n\r\n/path"));
}

TEST(HttpServerStartTest, RefusesAName) {
  SteadyClock clock;
  EXPECT_EQ(
      HttpServer::Start("evil.example", 0, nullptr, &clock).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm
