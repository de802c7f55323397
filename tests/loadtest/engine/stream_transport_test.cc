// SPDX-License-Identifier: Apache-2.0
//
// Requests over streams.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "loadtest/engine/transport.h"
#include "tests/client/fake_service.h"
#include "tests/loadtest/engine/transport_fixture.h"

namespace qgemm::loadtest {
namespace {

using ServerStream =
    grpc::ServerReaderWriter<v1::GemmStreamResponse, v1::GemmStreamRequest>;

class StreamTransportTest : public TransportTest {
 protected:
  StreamTransportTest() {
    service_.set_stream([this](ServerStream* stream) {
      ++streams_;
      v1::GemmStreamRequest request;
      while (stream->Read(&request)) {
        v1::GemmStreamResponse answer;
        answer.set_request_id(request.request_id());
        answer.set_c(
            absl::StrCat(request.open().gemm().weights(), request.a(), ".."));
        answer.set_c_bytes(answer.c().size());
        stream->Write(answer);
      }
      return grpc::Status::OK;
    });
  }

  std::unique_ptr<Transport> Open() {
    return TransportTest::Open(StreamTransports(options_, &messages_));
  }

  std::atomic<int> streams_{0};
};

TEST_F(StreamTransportTest, SendsTheMessageOverOneStreamAConnection) {
  const auto transport = Open();
  for (int round = 0; round < 3; ++round) {  // a slot serves again
    for (int slot = 0; slot < kSlots; ++slot) {
      transport->Start(slot, slot % 2, absl::InfiniteDuration());
    }
    for (int slot = 0; slot < kSlots; ++slot) {
      const End end = sink_.Await(slot);
      ASSERT_TRUE(end.status.ok()) << end.status;
      EXPECT_EQ(end.c, slot % 2 == 0 ? "layer0abcd.." : "layer1efgh..");
    }
  }
  EXPECT_EQ(streams_, 2);
  EXPECT_EQ(transport->Disconnect().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(StreamTransportTest, EveryServerHasAStreamForEachOfItsConnections) {
  FakeService other;
  std::atomic<int> streams_of_other{0};
  other.set_stream([&](ServerStream* stream) {
    ++streams_of_other;
    v1::GemmStreamRequest request;
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  });
  options_.target = absl::StrCat(service_.address(), ",", other.address());
  options_.client.token = "secret";
  const auto transport = Open();
  while (streams_ < 2 || streams_of_other < 2) std::this_thread::yield();
  EXPECT_EQ(other.authorization(), "Bearer secret");
}

TEST_F(StreamTransportTest, ACancelIsToldToTheServer) {
  service_.set_stream([](ServerStream* stream) {
    v1::GemmStreamRequest request;
    while (stream->Read(&request)) {
      if (!request.has_cancel()) continue;
      v1::GemmStreamResponse answer;
      answer.set_request_id(request.request_id());
      answer.mutable_error()->set_code(grpc::StatusCode::CANCELLED);
      stream->Write(answer);
    }
    return grpc::Status::OK;
  });
  const auto transport = Open();
  transport->Cancel(0);  // nothing is in flight there
  transport->Start(0, 0, absl::InfiniteDuration());
  transport->Cancel(0);
  EXPECT_TRUE(absl::IsCancelled(sink_.Await(0).status));
}

TEST_F(StreamTransportTest, OnABrokenStreamEveryRequestEndsWithTheReason) {
  service_.set_stream([](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
  });
  const auto transport = Open();
  for (int i = 0; i < 3; ++i) {
    transport->Start(0, 0, absl::InfiniteDuration());
    EXPECT_EQ(sink_.Await(0).status, absl::UnavailableError("draining"));
  }
}

}  // namespace
}  // namespace qgemm::loadtest
