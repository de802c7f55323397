// SPDX-License-Identifier: Apache-2.0
//
// Uploads that end before their time: given up, late, idle, unreadable; and
// conditions on the name that they bind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Messages = std::vector<v1::LoadWeightsRequest>;

constexpr char kLoadWeights[] = "/qgemm.v1.Qgemm/LoadWeights";

class EndedUploadsTest : public ::testing::Test {
 protected:
  explicit EndedUploadsTest(const ServerOptions& options = WithMetrics())
      : random_(FreshSeed()), server_(options), client_(server_.NewClient()) {}

  static ServerOptions WithMetrics() {
    ServerOptions options;
    options.metrics_listen = "127.0.0.1:0";
    return options;
  }

  RandomUpload NewUpload() {
    WeightsSpec spec;
    spec.format = WireFormat::kQ4_0;
    spec.n = 64;
    spec.k = 64;
    return MakeRandomUpload(spec, &random_);
  }

  static std::string HexIdOf(const RandomUpload& upload) {
    std::string hex;
    for (const unsigned char byte : IdOf(upload)) {
      constexpr char kDigits[] = "0123456789abcdef";
      hex += kDigits[byte >> 4];
      hex += kDigits[byte & 15];
    }
    return hex;
  }

  // Returns when the server has read as many bytes of sections.
  void WaitForUploadedBytes(double bytes) {
    const int port = server_.server().metrics_port();
    while (ScrapeMetric(port, "qgemm_uploaded_bytes_total") < bytes) {
      std::this_thread::yield();
    }
  }

  // Returns when the upload has come to its end, whichever that is.
  void WaitUntilOver(const std::string& name) {
    while (client_.Info().weights_bytes() != 0 && !client_.Get(name).ok()) {
      std::this_thread::yield();
    }
  }

  RandomGenerator random_;
  TestServer server_;
  const Client client_;
};

TEST_F(EndedUploadsTest, CancelledAfterItsLastByteIsNotBound) {
  const RandomUpload upload = NewUpload();
  grpc::ClientContext context;
  v1::LoadWeightsResponse response;
  const auto writer = client_.stub()->LoadWeights(&context, &response);
  for (const auto& message : ToMessages(upload, "layer")) {
    ASSERT_TRUE(writer->Write(message));
  }
  WaitForUploadedBytes(TotalBytes(upload.spec));
  context.TryCancel();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  WaitUntilOver("layer");
  EXPECT_EQ(client_.Get("layer").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(client_.List(), IsEmpty());
}

TEST_F(EndedUploadsTest, WhoseDeadlinePassedAfterItsLastByteIsNotBound) {
  const RandomUpload upload = NewUpload();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(500));
  v1::LoadWeightsResponse response;
  const auto writer = client_.stub()->LoadWeights(&context, &response);
  for (const auto& message : ToMessages(upload, "layer")) {
    if (!writer->Write(message)) break;
  }
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  WaitUntilOver("layer");
  EXPECT_EQ(client_.Get("layer").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(EndedUploadsTest, ThatStopsIsEndedAndGivesItsPlaceAndMemoryBack) {
  ServerOptions options = WithMetrics();
  options.idle_timeout = absl::Milliseconds(200);
  options.max_uploads = 1;
  TestServer server(options);
  const Client client = server.NewClient();
  const Messages messages = ToMessages(NewUpload(), "layer");
  grpc::ClientContext context;
  v1::LoadWeightsResponse response;
  const auto writer = client.stub()->LoadWeights(&context, &response);
  ASSERT_TRUE(writer->Write(messages[0]));

  const grpc::Status status = writer->Finish();  // the client's side is open

  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("--idle_timeout"));
  while (client.Info().weights_bytes() != 0) std::this_thread::yield();
  EXPECT_TRUE(client.Load(messages).ok());
  EXPECT_EQ(ScrapeMetric(server.server().metrics_port(),
                         "qgemm_calls_timed_out_total{kind=\"upload_idle\"}"),
            1);
}

TEST_F(EndedUploadsTest, MessageThatDoesNotParseIsSaidToBeSo) {
  const RawAnswer answer = CallRaw(client_.channel(), kLoadWeights, "\xff\xff");
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("does not parse"));
}

TEST_F(EndedUploadsTest, MessageOfUnknownFieldsIsRefusedUnparsed) {
  std::string fields;
  for (int i = 0; i < 100000; ++i) fields.append("\x9a\x06\x00", 3);
  const RawAnswer answer = CallRaw(client_.channel(), kLoadWeights, fields);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("300000 bytes beside"));
}

TEST_F(EndedUploadsTest, QueriesThatDoNotParseAreTheClientsMistake) {
  for (const std::string method :
       {"GetWeights", "ListWeights", "UnloadWeights", "GetServerInfo",
        "QueryUpload", "FindMissingWeights", "PinWeights", "TouchWeights"}) {
    const RawAnswer answer =
        CallRaw(client_.channel(), "/qgemm.v1.Qgemm/" + method, "\xff\xff");
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(answer.status.error_message(), HasSubstr("does not parse"));
  }
}

TEST_F(EndedUploadsTest, QueriesOfManyBytesAreRefusedUnparsed) {
  for (const std::string method :
       {"GetWeights", "ListWeights", "UnloadWeights", "GetServerInfo",
        "QueryUpload", "FindMissingWeights", "PinWeights", "TouchWeights"}) {
    std::string fields;
    for (int i = 0; i < 100000; ++i) fields.append("\x9a\x06\x00", 3);
    const RawAnswer answer =
        CallRaw(client_.channel(), "/qgemm.v1.Qgemm/" + method, fields);
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(answer.status.error_message(), HasSubstr("300000"));
  }
}

TEST_F(EndedUploadsTest, CreateOnlyBindsANameThatIsFree) {
  const RandomUpload one = NewUpload(), other = NewUpload();
  Messages messages = ToMessages(one, "layer");
  messages[0].mutable_header()->set_create_only(true);
  messages[0].mutable_header()->set_sha256(IdOf(one));
  EXPECT_TRUE(client_.Load(messages).ok());
  EXPECT_TRUE(client_.Load(messages).ok());  // the same again
  messages = ToMessages(other, "layer");
  messages[0].mutable_header()->set_create_only(true);
  const auto refused = client_.Load(messages);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(refused.status.error_message(),
              AllOf(HasSubstr("create_only"), HasSubstr(HexIdOf(one))));
  EXPECT_EQ(client_.Get("layer").response.weights().id(), HexIdOf(one));
}

TEST_F(EndedUploadsTest, IfMatchReplacesTheseWeightsAlone) {
  const RandomUpload one = NewUpload(), other = NewUpload();
  EXPECT_TRUE(client_.Load(ToMessages(one, "layer")).ok());
  Messages messages = ToMessages(other, "layer");
  messages[0].mutable_header()->set_if_match(HexIdOf(other));
  const auto refused = client_.Load(messages);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.status.error_message(), HasSubstr(HexIdOf(one)));
  messages[0].mutable_header()->set_if_match(HexIdOf(one));
  EXPECT_TRUE(client_.Load(messages).ok());
  EXPECT_EQ(client_.Get("layer").response.weights().id(), HexIdOf(other));
}

TEST_F(EndedUploadsTest, AnswersListAHundredNamesOfMany) {
  const RandomUpload upload = NewUpload();
  ASSERT_TRUE(client_.Load(ToMessages(upload, "")).ok());
  v1::LoadWeightsRequest header = ToMessages(upload, "")[0];
  header.mutable_header()->set_sha256(IdOf(upload));
  for (int i = 0; i < 150; ++i) {
    header.mutable_header()->set_name("n" + std::to_string(1000 + i));
    const auto bound = client_.Load({header});
    ASSERT_TRUE(bound.ok()) << bound.status.error_message();
    EXPECT_EQ(bound.response.weights().name_count(), i + 1);
    EXPECT_LE(bound.response.weights().names_size(), 100);
  }
}

TEST_F(EndedUploadsTest, NamesBeyondTheLimitAreRefused) {
  ServerOptions options;
  options.max_names = 1;
  options.max_layers = 2;
  TestServer server(options);
  const Client client = server.NewClient();
  ASSERT_TRUE(client.Load(ToMessages(NewUpload(), "one")).ok());
  const auto name = client.Load(ToMessages(NewUpload(), "two"));
  EXPECT_EQ(name.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(name.status.error_message(), HasSubstr("--max_names"));
  ASSERT_TRUE(client.Load(ToMessages(NewUpload(), "")).ok());
  const auto layer = client.Load(ToMessages(NewUpload(), ""));
  EXPECT_EQ(layer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(layer.status.error_message(), HasSubstr("--max_layers"));
  EXPECT_TRUE(client.Unload("one").ok());
  EXPECT_TRUE(client.Load(ToMessages(NewUpload(), "two")).ok());
}

}  // namespace
}  // namespace qgemm
