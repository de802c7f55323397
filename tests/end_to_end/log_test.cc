// SPDX-License-Identifier: Apache-2.0
//
// The log of a server of its own: the events of a layer's life, and text of
// clients that reaches it through gRPC and Protobuf.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/version.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

WeightsSpec SmallSpec() {
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = 32;
  spec.k = 64;
  return spec;
}

// The events of a log in JSON by their names, each name's last. Every line must
// be an object.
std::map<std::string, json> EventsOf(const std::string& output) {
  std::map<std::string, json> events;
  for (const absl::string_view line :
       absl::StrSplit(output, '\n', absl::SkipEmpty())) {
    const json object = json::parse(line, nullptr, false);
    EXPECT_TRUE(object.is_object()) << line;
    if (object.is_object() && object.contains("event")) {
      events[object["event"]] = object;
    }
  }
  return events;
}

// The life of a layer and of a server, with requests that are slow and refused.
std::string LogOfALife(const std::vector<std::string>& flags) {
  std::vector<std::string> all_flags = {"--listen=127.0.0.1:0", "--threads=1",
                                        "--slow_request=1ns"};
  all_flags.insert(all_flags.end(), flags.begin(), flags.end());
  ChildServer server(all_flags);
  const std::string served = server.WaitForAddress();
  const Client client(served.substr(0, served.find('"')));
  RandomGenerator random(FreshSeed());
  const RandomUpload upload = MakeRandomUpload(SmallSpec(), &random);
  EXPECT_TRUE(client.Load(ToMessages(upload, "layer")).ok());
  EXPECT_TRUE(client.Gemm(MakeGemm("layer", 1, 64, &random)).ok());
  EXPECT_FALSE(client.Gemm(MakeGemm("a\nb\x1b", 1, 64, &random)).ok());
  EXPECT_FALSE(client.Load({}).ok());
  EXPECT_TRUE(client.Unload("layer").ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  return server.output();
}

TEST(LogTest, JsonTellsTheLifeOfALayer) {
  std::map<std::string, json> events = EventsOf(
      LogOfALife({"--log_format=json", "--weights_budget_bytes=16MiB"}));

  EXPECT_EQ(events["started"]["version"], kVersion);
  EXPECT_THAT(events["started"]["flags"].dump(),
              HasSubstr("--weights_budget_bytes=16MiB"));
  EXPECT_EQ(events["upload_begun"]["format"], "q4_0");
  EXPECT_EQ(events["upload_committed"]["name"], "layer");
  EXPECT_EQ(events["upload_committed"]["id"], events["slow_request"]["id"]);
  EXPECT_EQ(events["upload_aborted"]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(events["slow_request"]["name"], "layer");
  EXPECT_EQ(events["slow_request"]["m"], 1);
  EXPECT_THAT(events["slow_request"]["client"].dump(), Not(HasSubstr("null")));
  EXPECT_GT(events["slow_request"]["total_seconds"], 0);
  EXPECT_EQ(events["request_refused"]["code"], "NOT_FOUND");
  EXPECT_EQ(events["weights_unloaded"]["weights"], "layer");
  for (const char* const name :
       {"upload_begun", "upload_committed", "upload_aborted", "request_refused",
        "weights_unloaded"}) {
    EXPECT_THAT(events[name]["client"].dump(), Not(HasSubstr("null"))) << name;
    EXPECT_THAT(events[name]["address"].dump(), HasSubstr("127.0.0.1")) << name;
  }
  EXPECT_TRUE(events.count("draining"));
  EXPECT_TRUE(events.count("drained"));
}

TEST(LogTest, TextTellsTheSame) {
  const std::string output = LogOfALife({});
  for (const char* const name :
       {"started", "upload_begun", "upload_committed", "upload_aborted",
        "slow_request", "request_refused", "weights_unloaded", "draining",
        "drained"}) {
    EXPECT_THAT(output, HasSubstr(std::string("] ") + name));
  }
  EXPECT_THAT(output, Not(HasSubstr("\x1b")));
}

// Sends bytes to a TCP address and leaves the connection open.
class RawConnection {
 public:
  explicit RawConnection(absl::string_view address) {
    const std::vector<absl::string_view> parts = absl::StrSplit(address, ':');
    int port = 0;
    CHECK(absl::SimpleAtoi(parts.at(1), &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  ~RawConnection() { close(fd_); }

  void Send(const std::string& bytes) {
    CHECK_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
             static_cast<ssize_t>(bytes.size()));
  }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

// An HTTP/2 frame (RFC 9113, 4.1) on the first stream, or on the connection.
std::string Frame(char type, char flags, char stream,
                  const std::string& payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  std::string frame = {static_cast<char>(size >> 16),
                       static_cast<char>(size >> 8), static_cast<char>(size)};
  frame += {type, flags, 0, 0, 0, stream};
  return frame + payload;
}

// A literal header (RFC 7541, 6.2.2) of fewer than 127 bytes a part.
std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

constexpr char kHeaders = 1, kSettings = 4, kEndStream = 1, kEndHeaders = 4,
               kAck = 1;

// A call with a header value that gRPC refuses and logs.
std::string CallWithBadTe(const std::string& te) {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, "") +
         Frame(kSettings, kAck, 0, "") +
         Frame(kHeaders, kEndHeaders | kEndStream, 1,
               Header(":method", "POST") + Header(":scheme", "http") +
                   Header(":path", "/qgemm.v1.Qgemm/ListWeights") +
                   Header(":authority", "x") + Header("te", te) +
                   Header("content-type", "application/grpc"));
}

TEST(LogTest, AHeaderCannotForgeALine) {
  ChildServer server({"--listen=127.0.0.1:0", "--threads=1"});
  RawConnection connection(server.WaitForAddress());
  connection.Send(CallWithBadTe(
      "x\nI 2026-01-01T00:00:00.000Z main.cc:112] drained\nF \x1b[2J"));
  EXPECT_THAT(server.WaitForOutput("] grpc "), HasSubstr("\\x1b[2J"));
  EXPECT_THAT(server.output(), Not(HasSubstr("\nI 2026-01-01T00")));
  EXPECT_THAT(server.output(), Not(HasSubstr("\x1b")));
}

// Protobuf logs each field that is not UTF-8.
TEST(LogTest, AFloodOfBadRequestsIsAFewLines) {
  ChildServer server({"--listen=127.0.0.1:0", "--threads=1"});
  const Client client(server.WaitForAddress());
  constexpr int kCalls = 3000;
  for (int i = 0; i < kCalls; ++i) {
    // UnloadWeightsRequest { weights = 1 }.
    EXPECT_FALSE(CallRaw(client.channel(), "/qgemm.v1.Qgemm/UnloadWeights",
                         "\x0a\x02\xff\xfe")
                     .status.ok());
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_LT(server.output().size(), size_t{kCalls} * 100);
  EXPECT_THAT(server.output(), HasSubstr("suppressed"));
}

}  // namespace
}  // namespace qgemm
