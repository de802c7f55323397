// SPDX-License-Identifier: Apache-2.0
//
// Requests over calls.

#include <gmock/gmock.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "loadtest/engine/transport.h"
#include "tests/client/fake_service.h"
#include "tests/loadtest/engine/transport_fixture.h"
#include "tests/support/certificates.h"

namespace qgemm::loadtest {
namespace {

class GrpcTransportTest : public TransportTest {
 protected:
  GrpcTransportTest() {
    service_.set_gemm(
        [](const v1::GemmRequest& request, v1::GemmResponse* response) {
          response->set_c(absl::StrCat(request.client_id(), request.weights(),
                                       " of ", request.a()));
          response->mutable_timings()->set_kernel_ns(1234);
          response->mutable_timings()->set_launch_rows(request.m());
          return grpc::Status::OK;
        });
  }

  std::unique_ptr<Transport> Open(bool can_be_cut = false) {
    options_.can_be_cut = can_be_cut;
    return TransportTest::Open(GrpcTransports(options_, &messages_));
  }
};

TEST_F(GrpcTransportTest, SendsTheMessageAndHandsOverTheAnswer) {
  const auto transport = Open();
  for (int round = 0; round < 2; ++round) {  // a slot serves again
    for (int slot = 0; slot < kSlots; ++slot) {
      transport->Start(slot, slot % 2, kTimeout);
    }
    for (int slot = 0; slot < kSlots; ++slot) {
      const End end = sink_.Await(slot);
      ASSERT_TRUE(end.status.ok()) << end.status;
      EXPECT_EQ(end.c, slot % 2 == 0 ? "layer0 of abcd" : "layer1 of efgh");
      EXPECT_EQ(end.timings.kernel, absl::Nanoseconds(1234));
      EXPECT_EQ(end.timings.launch_rows, 2);
    }
  }
}

TEST_F(GrpcTransportTest, EachSlotIsAClientOfItsOwnIfIdsAreAskedFor) {
  options_.client_id_prefix = "load";
  const OpenTransport open = GrpcTransports(options_, &messages_);
  for (int number = 0; number < 2; ++number) {
    const auto transport = TransportTest::Open(open);
    for (int slot = 0; slot < kSlots; ++slot) {
      transport->Start(slot, 0, kTimeout);
      EXPECT_EQ(sink_.Await(slot).c,
                absl::StrCat("load-", number, "-", slot, "layer0 of abcd"));
    }
  }
}

TEST_F(GrpcTransportTest, SendsARunAndHandsOverItsOutputs) {
  service_.set_run(
      [](const v1::RunRequest& request, v1::RunResponse* response) {
        response->set_outputs(absl::StrCat(
            request.client_id(), request.program(), " of ", request.inputs()));
        response->mutable_timings()->set_launch_rows(request.m());
        return grpc::Status::OK;
      });
  const auto inputs =
      std::make_shared<const std::vector<uint8_t>>(std::vector<uint8_t>{'a'});
  RunRequest run;
  run.program = "layer";
  run.m = 3;
  run.inputs = {absl::MakeConstSpan(*inputs)};
  messages_.AddRun(run, inputs);
  options_.client_id_prefix = "load";
  const auto transport = Open();
  transport->Start(1, messages_.size() - 1, kTimeout);
  const End end = sink_.Await(1);
  ASSERT_TRUE(end.status.ok()) << end.status;
  EXPECT_EQ(end.c, "load-0-1layer of a");
  EXPECT_EQ(end.timings.launch_rows, 3);
}

// Both messages of the set make one request.
class RequestInPartsTest : public GrpcTransportTest {
 protected:
  RequestInPartsTest() { options_.parts = 2; }
};

TEST_F(RequestInPartsTest, EndsOnceWithTheAnswersInOrder) {
  const auto transport = Open();
  for (int round = 0; round < 3; ++round) {  // a slot serves again
    for (int slot = 0; slot < kSlots; ++slot) {
      transport->Start(slot, 0, kTimeout);
    }
    for (int slot = 0; slot < kSlots; ++slot) {
      const End end = sink_.Await(slot);
      ASSERT_TRUE(end.status.ok()) << end.status;
      EXPECT_EQ(end.c, "layer0 of abcdlayer1 of efgh");
    }
  }
  EXPECT_EQ(service_.calls(), 2 * 3 * kSlots);
}

TEST_F(RequestInPartsTest, ItsPartsAreInFlightTogether) {
  const auto transport = Open();
  service_.CloseGate();
  transport->Start(0, 0, kTimeout);
  service_.AwaitAtGate(2);
  service_.OpenGate();
  EXPECT_TRUE(sink_.Await(0).status.ok());
}

TEST_F(RequestInPartsTest, FailsWithAFailedPart) {
  service_.FailNext(1, grpc::Status(grpc::StatusCode::NOT_FOUND, "no such"));
  const auto transport = Open();
  transport->Start(0, 0, kTimeout);
  EXPECT_EQ(sink_.Await(0).status, absl::NotFoundError("no such"));
  transport->Start(0, 0, kTimeout);
  EXPECT_EQ(sink_.Await(0).c, "layer0 of abcdlayer1 of efgh");
}

TEST_F(RequestInPartsTest, ACancelReachesEveryPart) {
  const auto transport = Open();
  service_.CloseGate();
  transport->Start(0, 0, kTimeout);
  service_.AwaitAtGate(2);
  transport->Cancel(0);
  EXPECT_EQ(sink_.Await(0).status.code(), absl::StatusCode::kCancelled);
  service_.OpenGate();
}

TEST_F(GrpcTransportTest, AnErrorKeepsItsCodeAndMessage) {
  service_.FailNext(1, grpc::Status(grpc::StatusCode::NOT_FOUND, "no such"));
  const auto transport = Open();
  transport->Start(0, 0, kTimeout);
  const End end = sink_.Await(0);
  EXPECT_EQ(end.status, absl::NotFoundError("no such"));
  EXPECT_FALSE(end.cut);
}

TEST_F(GrpcTransportTest, ACancelledRequestEndsAsSuchAndItsSlotIsFree) {
  const auto transport = Open();
  service_.CloseGate();
  transport->Start(1, 0, kTimeout);
  service_.AwaitAtGate(1);
  transport->Cancel(1);
  EXPECT_EQ(sink_.Await(1).status.code(), absl::StatusCode::kCancelled);
  transport->Cancel(1);  // nothing is in flight: no effect
  service_.OpenGate();
  transport->Start(1, 1, kTimeout);
  EXPECT_EQ(sink_.Await(1).c, "layer1 of efgh");
}

TEST_F(GrpcTransportTest, ATimeoutIsADeadlineExceeded) {
  const auto transport = Open();
  service_.CloseGate();
  transport->Start(0, 0, absl::Milliseconds(20));
  EXPECT_EQ(sink_.Await(0).status.code(), absl::StatusCode::kDeadlineExceeded);
  service_.OpenGate();
}

TEST_F(GrpcTransportTest, ACutConnectionEndsItsRequestsAloneAndIsReplaced) {
  options_.target = service_.unix_address();
  const auto transport = Open(/*can_be_cut=*/true);
  service_.CloseGate();
  transport->Start(0, 0, kTimeout);  // on the first connection
  transport->Start(1, 1, kTimeout);  // on the second one
  service_.AwaitAtGate(2);
  ASSERT_TRUE(transport->Disconnect().ok());
  const End cut = sink_.Await(0);
  EXPECT_FALSE(cut.status.ok());
  EXPECT_TRUE(cut.cut);
  service_.OpenGate();
  EXPECT_EQ(sink_.Await(1).c, "layer1 of efgh");
  transport->Start(0, 0, kTimeout);
  EXPECT_EQ(sink_.Await(0).c, "layer0 of abcd");
}

TEST_F(GrpcTransportTest, LastingConnectionsCannotBeCut) {
  EXPECT_EQ(Open()->Disconnect().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(GrpcTransportTest, OpenTellsWhyItCannotConnect) {
  options_.connect_timeout = absl::Milliseconds(50);
  const auto opened = [this](bool can_be_cut, std::string target) {
    options_.can_be_cut = can_be_cut;
    options_.target = std::move(target);
    return GrpcTransports(options_, &messages_)(1, &sink_).status().code();
  };
  for (const bool can_be_cut : {false, true}) {
    EXPECT_EQ(opened(can_be_cut, "unix:/nowhere/at/all"),
              absl::StatusCode::kUnavailable);
    EXPECT_EQ(opened(can_be_cut, "no target"),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(opened(true, "127.0.0.1:1"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(opened(true, "unix:/" + std::string(200, 'x')),
            absl::StatusCode::kInvalidArgument);
}

// The second transport begins with the other server: with one slot each they
// would load one server alone.
TEST_F(GrpcTransportTest, SlotsAndTransportsTakeServersInTurn) {
  FakeService other;
  options_.target = absl::StrCat(service_.address(), ",", other.address());
  const OpenTransport open = GrpcTransports(options_, &messages_);
  for (int number = 1; number <= 2; ++number) {
    const auto transport = TransportTest::Open(open);
    for (int slot = 0; slot < 3; ++slot) {
      transport->Start(slot, 0, kTimeout);
      EXPECT_TRUE(sink_.Await(slot).status.ok());
    }
    EXPECT_EQ(service_.calls(), number == 1 ? 2 : 3);
    EXPECT_EQ(other.calls(), number == 1 ? 1 : 3);
  }
}

TEST_F(GrpcTransportTest, AServerThatIsNotThereKeepsItFromOpening) {
  options_.target = absl::StrCat(service_.address(), ",unix:/nowhere/at/all");
  const absl::Status status =
      GrpcTransports(options_, &messages_)(1, &sink_).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("unix:/nowhere/at/all"));
}

TEST_F(GrpcTransportTest, CallsCarryTheToken) {
  options_.client.token = "secret";
  for (const bool can_be_cut : {false, true}) {
    options_.target = service_.unix_address();
    const auto transport = Open(can_be_cut);
    transport->Start(0, 0, kTimeout);
    EXPECT_TRUE(sink_.Await(0).status.ok());
    EXPECT_EQ(service_.authorization(), "Bearer secret");
  }
}

TEST_F(GrpcTransportTest, ConnectsByTls) {
  const TestAuthority authority("authority");
  const KeyPair identity = authority.IssueServer();
  grpc::SslServerCredentialsOptions server;
  server.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
  FakeService::Listener listener;
  listener.credentials = grpc::SslServerCredentials(server);
  FakeService secured(listener);
  options_.target = secured.address();
  options_.client.tls.emplace().ca_pem = authority.certificate();
  const auto transport = Open();
  transport->Start(0, 0, kTimeout);
  EXPECT_TRUE(sink_.Await(0).status.ok());
  EXPECT_EQ(secured.calls(), 1);
}

}  // namespace
}  // namespace qgemm::loadtest
