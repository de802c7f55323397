// SPDX-License-Identifier: Apache-2.0
//
// Refusals of a GemmStream: messages that end the stream, requests that are
// told so, and what is beyond a limit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/end_to_end/gemm_stream_fixture.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kGemmStream[] = "/qgemm.v1.Qgemm/GemmStream";

// Changes one message of a request in two fragments of 100 and 156 bytes.
struct Malformed {
  const char* name;
  size_t message;
  std::function<void(v1::GemmStreamRequest*)> change;
};

class MalformedTest : public GemmStreamTest,
                      public ::testing::WithParamInterface<Malformed> {};

TEST_P(MalformedTest, EndsTheStream) {
  std::vector<v1::GemmStreamRequest> messages =
      ToMessages(5, Request(2), {100});
  GetParam().change(&messages[GetParam().message]);
  StreamClient stream(client_);
  stream.Write(messages);
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("request_id = "));
  EXPECT_TRUE(client_.Gemm(Request(1)).ok());
}

INSTANTIATE_TEST_SUITE_P(
    Messages, MalformedTest,
    ::testing::Values(
        Malformed{"AnotherId", 1, [](auto* m) { m->set_request_id(6); }},
        Malformed{"AGap", 1,
                  [](auto* m) { m->mutable_fragment()->set_offset(101); }},
        Malformed{"AnOverlap", 1,
                  [](auto* m) { m->mutable_fragment()->set_offset(99); }},
        Malformed{
            "AFarOffset", 1,
            [](auto* m) { m->mutable_fragment()->set_offset(~uint64_t{0}); }},
        Malformed{"NoBytes", 1, [](auto* m) { m->clear_a(); }},
        Malformed{"TooManyBytes", 1, [](auto* m) { m->set_a(m->a() + "x"); }},
        Malformed{"NoOpen", 0, [](auto* m) { m->mutable_fragment(); }},
        Malformed{"NoPartAtFirst", 0, [](auto* m) { m->clear_part(); }},
        Malformed{"NoPartLater", 1, [](auto* m) { m->clear_part(); }},
        Malformed{"ASecondOpen", 1,
                  [](auto* m) { m->mutable_open()->set_a_bytes(1000); }},
        Malformed{"ACancelWithBytes", 1, [](auto* m) { m->mutable_cancel(); }}),
    [](const auto& info) { return std::string(info.param.name); });

// Changes the one message of a request of two rows.
struct BadRequest {
  const char* name;
  grpc::StatusCode code;
  const char* words;
  std::function<void(v1::GemmStreamRequest*)> change;
};

class BadRequestTest : public GemmStreamTest,
                       public ::testing::WithParamInterface<BadRequest> {};

TEST_P(BadRequestTest, IsToldByItsAnswerAndTheStreamGoesOn) {
  v1::GemmStreamRequest message = ToMessage(5, Request(2));
  GetParam().change(&message);
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(message));
  const StreamedAnswer refused = stream.ReadOne();
  EXPECT_EQ(refused.code(), GetParam().code);
  EXPECT_THAT(refused.error.message(), HasSubstr(GetParam().words));
  EXPECT_EQ(refused.error.retry_delay_ns(), 0u);
  ASSERT_TRUE(stream.Write(ToMessage(6, Request(1))));
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::OK);
}

INSTANTIATE_TEST_SUITE_P(
    Requests, BadRequestTest,
    ::testing::Values(
        BadRequest{"NoOperand", grpc::StatusCode::INVALID_ARGUMENT,
                   "a has 0 bytes", [](auto* m) { m->clear_a(); }},
        BadRequest{"LessThanItsFragment", grpc::StatusCode::INVALID_ARGUMENT,
                   "a_bytes = 255",
                   [](auto* m) { m->mutable_open()->set_a_bytes(255); }},
        BadRequest{"NoGemm", grpc::StatusCode::INVALID_ARGUMENT, "open.gemm",
                   [](auto* m) { m->mutable_open()->clear_gemm(); }},
        BadRequest{
            "AnOperandInOpen", grpc::StatusCode::INVALID_ARGUMENT,
            "open.gemm.a",
            [](auto* m) { m->mutable_open()->mutable_gemm()->set_a("x"); }},
        BadRequest{
            "TinyFragments", grpc::StatusCode::INVALID_ARGUMENT,
            "c_fragment_bytes = 4095",
            [](auto* m) { m->mutable_open()->set_c_fragment_bytes(4095); }},
        BadRequest{"UnknownWeights", grpc::StatusCode::NOT_FOUND, "unknown",
                   [](auto* m) {
                     m->mutable_open()->mutable_gemm()->set_weights("unknown");
                   }},
        BadRequest{"RowsThatOverflow", grpc::StatusCode::INVALID_ARGUMENT,
                   "m = ",
                   [](auto* m) {
                     m->mutable_open()->mutable_gemm()->set_m(~uint64_t{0});
                   }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(GemmStreamTest, AnOperandOfAllBytesThereAreIsRefusedBeforeItComes) {
  v1::GemmStreamRequest message = ToMessage(5, Request(2));
  message.mutable_open()->set_a_bytes(~uint64_t{0});
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(message));
  const StreamedAnswer refused = stream.ReadOne();
  EXPECT_EQ(refused.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error.message(),
              AllOf(HasSubstr("18446744073709551615"),
                    HasSubstr("--max_stream_operand_bytes")));
}

TEST_F(GemmStreamTest, AMessageWithoutAPartIsToldWhatIsMissing) {
  v1::GemmStreamRequest message = ToMessage(5, Request(2));
  message.clear_part();
  StreamClient stream(client_);
  stream.Write(message);
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "request_id = 5: the message has none of open, fragment and "
            "cancel; set one of them");
}

TEST_F(GemmStreamTest, BytesThatAreNoMessageEndTheStream) {
  const RawAnswer answer =
      StreamRaw(client_.channel(), kGemmStream, "\x7a\x05");
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(answer.status.error_message(),
            "the message does not parse as qgemm.v1.GemmStreamRequest");
}

TEST_F(GemmStreamTest, AFloodOfUnknownFieldsEndsTheStream) {
  std::string flood;
  while (flood.size() < 1 << 20) flood.append("\x9a\x06\x00", 3);
  const RawAnswer answer = StreamRaw(client_.channel(), kGemmStream, flood);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("65536"));
}

TEST_F(GemmStreamTest, TooManyOperandsInPartEndTheStream) {
  StreamClient stream(client_);
  for (uint64_t id = 0; id < 9; ++id) {
    stream.Write(ToMessages(id, Request(2), {100}).front());
  }
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("come in part"));
}

TEST(GemmStreamLimits, OperandsBeyondTheirLimitAreRefused) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.stream.max_operand_bytes = 4096;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, /*n=*/1024, kK, &random);
  StreamClient stream(client);
  ASSERT_TRUE(stream.Write(ToMessage(5, MakeGemm("layer", 2, kK, &random))));
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::OK);
  ASSERT_TRUE(stream.Write(ToMessage(6, MakeGemm("layer", 3, kK, &random))));
  EXPECT_THAT(stream.ReadOne().error.message(),
              AllOf(HasSubstr("6144"), HasSubstr("4096"),
                    HasSubstr("--max_stream_operand_bytes")));
}

TEST(GemmStreamLimits, WhatTheQueueCanNeverTakeIsRefusedBeforeItComes) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.scheduler.max_queued_bytes = 1000;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  StreamClient stream(client);
  ASSERT_TRUE(stream.Write(
      ToMessages(5, MakeGemm("layer", 6, kK, &random), {1}).front()));
  const StreamedAnswer refused = stream.ReadOne();
  EXPECT_EQ(refused.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error.message(),
              AllOf(HasSubstr("768"), HasSubstr("384"), HasSubstr("1000"),
                    HasSubstr("--max_queued_bytes")));
  EXPECT_EQ(refused.error.retry_delay_ns(), 0u);
}

TEST(GemmStreamLimits, OneClientsOperandsAreBoundedOverItsStreams) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.max_client_staging_bytes = 1000;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const std::vector<v1::GemmStreamRequest> messages =
      ToMessages(5, MakeGemm("layer", 4, kK, &random), {1});
  StreamClient first(client);
  StreamClient second(client);
  ASSERT_TRUE(first.Write(messages.front()));
  // The server has read the first message once it answers a later one.
  ASSERT_TRUE(first.Write(ToMessage(6, MakeGemm("layer", 1, kK, &random))));
  EXPECT_EQ(first.ReadOne().code(), grpc::StatusCode::OK);
  ASSERT_TRUE(second.Write(messages.front()));
  const StreamedAnswer refused = second.ReadOne();
  EXPECT_EQ(refused.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error.message(),
              AllOf(HasSubstr("768"), HasSubstr("1000"),
                    HasSubstr("--max_client_staging_bytes")));
  EXPECT_GT(refused.error.retry_delay_ns(), 0u);
  ASSERT_TRUE(first.Write(messages.back()));
  EXPECT_EQ(first.ReadOne().code(), grpc::StatusCode::OK);
}

TEST(GemmStreamLimits, AnOperandWhoseFragmentsDoNotComeIsGivenUp) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.idle_timeout = absl::Milliseconds(200);
  HeldServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const std::vector<v1::GemmStreamRequest> messages =
      ToMessages(5, MakeGemm("layer", 2, kK, &random), {100});
  StreamClient stream(client);
  ASSERT_TRUE(stream.Write(messages.front()));
  const StreamedAnswer ended = stream.ReadOne();
  EXPECT_EQ(ended.id, 5u);
  EXPECT_EQ(ended.code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ended.error.message(),
            "100 of the 256 bytes of a have come, and no fragment came for "
            "200ms (--idle_timeout); send the request again");
  EXPECT_EQ(server.backend().leases(), 0);
  // The stream goes on; what follows of that operand is dropped.
  ASSERT_TRUE(stream.Write(messages.back()));
  ASSERT_TRUE(stream.Write(ToMessage(6, MakeGemm("layer", 1, kK, &random))));
  const StreamedAnswer next = stream.ReadOne();
  EXPECT_EQ(next.id, 6u);
  EXPECT_EQ(next.code(), grpc::StatusCode::OK);
}

TEST(GemmStreamLimits, OneClientHasHalfOfTheStreams) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.max_streams = 2;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmStreamRequest message =
      ToMessage(1, MakeGemm("layer", 1, kK, &random));
  StreamClient first(client);
  ASSERT_TRUE(first.Write(message));
  EXPECT_EQ(first.ReadOne().code(), grpc::StatusCode::OK);
  const grpc::Status refused = StreamClient(client).Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("1 (--max_streams)"));
  EXPECT_THAT(refused.error_details(), HasSubstr("google.rpc.RetryInfo"));
  first.WritesDone();
  EXPECT_TRUE(first.Finish().ok());
  StreamClient second(client);
  ASSERT_TRUE(second.Write(message));
  EXPECT_EQ(second.ReadOne().code(), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace qgemm
