// SPDX-License-Identifier: Apache-2.0
//
// GemmStream on a backend that holds its launches: order, cancellation, the
// bounds of a stream, and its end by either side.

#include <arpa/inet.h>
#include <grpcpp/create_channel_posix.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/end_to_end/gemm_stream_fixture.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

// A TCP connection that the test may cut.
int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  return fd;
}

// A server on a held backend with the layer "layer".
class HeldStreamTest : public ::testing::Test {
 protected:
  explicit HeldStreamTest(const ServerOptions& options = ServerOptions())
      : server_(options), client_(server_.NewClient()) {
    LoadLayer(client_, kN, kK, &random_);
    server_.backend().Hold();
  }

  v1::GemmStreamRequest Message(uint64_t id) {
    return ToMessage(id, MakeGemm("layer", 1, kK, &random_));
  }
  // Requests 1 and 2, each in a launch of its own, which hold all slots.
  void FillLaunches(StreamClient* stream) {
    for (int id = 1; id <= 2; ++id) {
      ASSERT_TRUE(stream->Write(Message(id)));
      server_.backend().WaitForHeld(id);
    }
  }
  void Drain() { server_.test_server().server().Drain(absl::InfiniteFuture()); }

  RandomGenerator random_;
  HeldServer server_;
  const Client client_;
};

TEST_F(HeldStreamTest, AnswersComeInTheOrderOfTheirLaunches) {
  StreamClient stream(client_);
  FillLaunches(&stream);
  server_.backend().Release(1);
  EXPECT_EQ(stream.ReadOne().id, 2u);
  server_.backend().ReleaseAll();
  EXPECT_EQ(stream.ReadOne().id, 1u);
}

TEST_F(HeldStreamTest, ACancelledRequestIsNotComputed) {
  StreamClient stream(client_);
  FillLaunches(&stream);
  ASSERT_TRUE(stream.Write(Message(3)));
  ASSERT_TRUE(stream.Write(CancelMessage(3)));
  // An answer to a later message: the cancel was read before.
  v1::GemmStreamRequest unknown = Message(4);
  unknown.mutable_open()->mutable_gemm()->set_weights("unknown");
  ASSERT_TRUE(stream.Write(unknown));
  EXPECT_EQ(stream.ReadOne().id, 4u);
  server_.backend().ReleaseAll();
  std::map<uint64_t, grpc::StatusCode> codes;
  for (int i = 0; i < 3; ++i) {
    const StreamedAnswer answer = stream.ReadOne();
    codes[answer.id] = answer.code();
  }
  EXPECT_EQ(codes[1], grpc::StatusCode::OK);
  EXPECT_EQ(codes[2], grpc::StatusCode::OK);
  EXPECT_EQ(codes[3], grpc::StatusCode::CANCELLED);
  EXPECT_EQ(server_.backend().enqueued(), 2);
}

TEST_F(HeldStreamTest, ARequestBeyondItsTimeoutIsNotComputed) {
  StreamClient stream(client_);
  FillLaunches(&stream);
  v1::GemmStreamRequest late = Message(3);
  late.mutable_open()->set_timeout_ns(1'000'000);
  ASSERT_TRUE(stream.Write(late));
  v1::GemmStreamRequest unknown = Message(4);
  unknown.mutable_open()->mutable_gemm()->set_weights("unknown");
  ASSERT_TRUE(stream.Write(unknown));
  EXPECT_EQ(stream.ReadOne().id, 4u);
  // The server took it before that answer, by the same clock.
  const absl::Time passed = absl::Now() + absl::Milliseconds(2);
  while (absl::Now() < passed) std::this_thread::yield();
  server_.backend().ReleaseAll();
  for (int i = 0; i < 3; ++i) {
    const StreamedAnswer answer = stream.ReadOne();
    EXPECT_EQ(answer.code(), answer.id == 3
                                 ? grpc::StatusCode::DEADLINE_EXCEEDED
                                 : grpc::StatusCode::OK);
  }
  EXPECT_EQ(server_.backend().enqueued(), 2);
}

TEST_F(HeldStreamTest, ACancelledCallGivesItsMemoryBack) {
  {
    StreamClient stream(client_);
    FillLaunches(&stream);
    ASSERT_TRUE(stream.Write(Message(3)));
    ASSERT_TRUE(stream.Write(
        ToMessages(4, MakeGemm("layer", 2, kK, &random_), {9}).front()));
    while (server_.backend().leases() < 7) std::this_thread::yield();
    stream.Cancel();
    EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server_.backend().ReleaseAll();
  Drain();
  EXPECT_EQ(server_.backend().leases(), 0);
}

TEST_F(HeldStreamTest, ADisconnectedClientsMemoryComesBack) {
  const int socket = Connect(server_.test_server().server().ports().front());
  const Client other(grpc::CreateInsecureChannelFromFd("", dup(socket)));
  StreamClient stream(other);
  FillLaunches(&stream);
  ASSERT_TRUE(stream.Write(
      ToMessages(4, MakeGemm("layer", 2, kK, &random_), {9}).front()));
  while (server_.backend().leases() < 5) std::this_thread::yield();
  ASSERT_EQ(shutdown(socket, SHUT_RDWR), 0);
  close(socket);
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_.backend().ReleaseAll();
  while (server_.backend().leases() > 0) std::this_thread::yield();
  EXPECT_TRUE(client_.Gemm(MakeGemm("layer", 1, kK, &random_)).ok());
}

TEST_F(HeldStreamTest, AMalformedMessageGivesTheMemoryOfAllBack) {
  {
    StreamClient stream(client_);
    FillLaunches(&stream);
    ASSERT_TRUE(stream.Write(
        ToMessages(4, MakeGemm("layer", 2, kK, &random_), {9}).front()));
    stream.Write(v1::GemmStreamRequest());
    EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  server_.backend().ReleaseAll();
  Drain();
  EXPECT_EQ(server_.backend().leases(), 0);
}

TEST_F(HeldStreamTest, ADrainAnswersWhatIsAcceptedAndRefusesTheRest) {
  StreamClient idle(client_);
  StreamClient stream(client_);
  FillLaunches(&stream);
  ASSERT_TRUE(stream.Write(
      ToMessages(3, MakeGemm("layer", 2, kK, &random_), {9}).front()));
  ASSERT_TRUE(stream.Write(Message(4)));
  while (server_.backend().leases() < 7) std::this_thread::yield();
  std::thread drain([this] { Drain(); });
  // In part when the drain began.
  const StreamedAnswer partial = stream.ReadOne();
  EXPECT_EQ(partial.id, 3u);
  EXPECT_EQ(partial.code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(stream.Write(Message(5)));
  const StreamedAnswer late = stream.ReadOne();
  EXPECT_EQ(late.id, 5u);
  EXPECT_EQ(late.code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(idle.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_.backend().ReleaseAll();
  for (int i = 0; i < 3; ++i) {
    const StreamedAnswer answer = stream.ReadOne();
    EXPECT_EQ(answer.code(), grpc::StatusCode::OK) << answer.id;
  }
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  drain.join();
  EXPECT_EQ(server_.backend().leases(), 0);
}

// Sends many requests to a held server and looks, until some later calls are
// answered, how much of the backend's memory they hold.
class BoundedStreamTest : public HeldStreamTest {
 protected:
  static constexpr int kRequests = 60;
  static constexpr int kLeasesEach = 2;

  using HeldStreamTest::HeldStreamTest;

  void ExpectBounded(int64_t requests) {
    StreamClient stream(client_);
    std::thread writer([&] {
      for (int id = 0; id < kRequests; ++id) stream.Write(Message(id));
      stream.WritesDone();
    });
    while (server_.backend().leases() < requests * kLeasesEach) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 20; ++i) {
      client_.Info();
      EXPECT_LE(server_.backend().leases(), requests * kLeasesEach);
    }
    server_.backend().ReleaseAll();
    int answers = 0;
    while (const auto answer = stream.Read()) {
      EXPECT_EQ(answer->code(), grpc::StatusCode::OK);
      ++answers;
    }
    writer.join();
    EXPECT_EQ(answers, kRequests);
    EXPECT_TRUE(stream.Finish().ok());
  }
};

class RequestBoundTest : public BoundedStreamTest {
 protected:
  RequestBoundTest() : BoundedStreamTest(WithBounds(4, 1 << 30)) {}
};

TEST_F(RequestBoundTest, BeyondItTheStreamIsNotRead) { ExpectBounded(4); }

class ByteBoundTest : public BoundedStreamTest {
 protected:
  // A request has 128 bytes of A and 64 of C; the one that reaches the bound
  // is the last one read.
  ByteBoundTest() : BoundedStreamTest(WithBounds(1000, 3 * 192 - 1)) {}
};

TEST_F(ByteBoundTest, BeyondItTheStreamIsNotRead) { ExpectBounded(3); }

// Answers of 1 MiB that nobody reads.
TEST(SlowReaderTest, HoldsNoMoreAnswersThanTheBound) {
  constexpr int kRequests = 40;
  constexpr int kBound = 6;
  RandomGenerator random(FreshSeed());
  HeldServer server(WithBounds(kBound, int64_t{1} << 40));
  const Client client = server.NewClient();
  LoadLayer(client, /*n=*/1 << 13, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 64, kK, &random);
  StreamClient stream(client);
  std::thread writer([&] {
    for (int id = 0; id < kRequests; ++id) stream.Write(ToMessage(id, request));
    stream.WritesDone();
  });
  server.backend().WaitForCompleted(kBound);
  for (int i = 0; i < 20; ++i) {
    client.Info();
    // An answer that gRPC has taken and not sent is held too.
    EXPECT_LE(server.backend().leases(), 2 * kBound + kBound);
  }
  int answers = 0;
  while (const auto answer = stream.Read()) {
    EXPECT_EQ(answer->c.size(), size_t{1} << 20);
    ++answers;
  }
  writer.join();
  EXPECT_EQ(answers, kRequests);
  server.test_server().server().Drain(absl::InfiniteFuture());
  EXPECT_EQ(server.backend().leases(), 0);
}

}  // namespace
}  // namespace qgemm
