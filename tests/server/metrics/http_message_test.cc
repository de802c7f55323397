// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/http_message.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ParseHttpHeadTest, ReadsMethodPathAndHost) {
  HttpRequest request;
  const HttpResponse parsed = ParseHttpHead(
      "GET /metrics?x=1 HTTP/1.1\r\nAccept: */*\r\nHOST:  Example.Org:9090 ",
      &request);
  EXPECT_EQ(parsed.code, 200);
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/metrics");
  EXPECT_EQ(request.host, "example.org");
}

TEST(ParseHttpHeadTest, KeepsTheBracketsOfAnAddress) {
  HttpRequest request;
  EXPECT_EQ(ParseHttpHead("GET / HTTP/1.1\nHost: [::1]:9090", &request).code,
            200);
  EXPECT_EQ(request.host, "[::1]");
}

TEST(ParseHttpHeadTest, NoHostIsAnEmptyOne) {
  HttpRequest request;
  EXPECT_EQ(ParseHttpHead("HEAD / HTTP/1.0", &request).code, 200);
  EXPECT_EQ(request.host, "");
}

TEST(ParseHttpHeadTest, RefusesWhatIsNotARequest) {
  const struct {
    const char* head;
    int code;
  } cases[] = {
      {"", 400},
      {"GET", 400},
      {"GET /", 400},
      {"GET / HTTP/2.0", 400},
      {"GET metrics HTTP/1.1", 400},
      {"GET http://other/ HTTP/1.1", 400},
      {"GET /a b HTTP/1.1", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b", 400},
      {"POST / HTTP/1.1", 405},
      {"get / HTTP/1.1", 405},
      {"OPTIONS / HTTP/1.1", 405},
  };
  for (const auto& [head, code] : cases) {
    HttpRequest request;
    EXPECT_EQ(ParseHttpHead(head, &request).code, code) << head;
  }
}

TEST(ToHttpTextTest, AHeadHasNoBodyButItsLength) {
  HttpResponse response;
  response.body = "serving\n";
  EXPECT_THAT(ToHttpText(response, "GET"), EndsWith("\r\n\r\nserving\n"));
  const std::string head = ToHttpText(response, "HEAD");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Length: 8\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

TEST(ToHttpTextTest, AllowsABrowserNothingByDefault) {
  EXPECT_THAT(ToHttpText({}, "GET"),
              HasSubstr("\r\nContent-Security-Policy: default-src 'none'"));
}

TEST(IsHostAllowedTest, TakesAddressesAndNamesOfThisMachineOnly) {
  for (const char* host :
       {"", "localhost", "127.0.0.1", "[::1]", "10.0.0.7", "metrics.local"}) {
    EXPECT_TRUE(IsHostAllowed(host, "metrics.local")) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "[", "[]",
                           "[evil]", "127.0.0.1.evil.example", "::1"}) {
    EXPECT_FALSE(IsHostAllowed(host, "metrics.local")) << host;
  }
}

}  // namespace
}  // namespace qgemm
