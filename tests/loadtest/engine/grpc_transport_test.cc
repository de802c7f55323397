// SPDX-License-Identifier: Apache-2.0
//
// Requests over real connections to a server whose answers the test decides.

#include "loadtest/engine/grpc_transport.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "gtest/gtest.h"
#include "loadtest/engine/message_set.h"
#include "tests/client/fake_service.h"

namespace qgemm {
namespace {

// What became of a request; C joined.
struct End {
  absl::Status status;
  bool cut = false;
  Timings timings;
  std::string c;
};

// Keeps ends by place until they are asked for.
class RecordingSink final : public RequestSink {
 public:
  explicit RecordingSink(int places) : ends_(places) {}

  void OnEnd(int place, const EndedRequest& end) override {
    auto kept = std::make_unique<End>();
    // Not a share of it: how Abseil, which is not instrumented, counts shares
    // is hidden from ThreadSanitizer.
    kept->status = absl::Status(end.status.code(), end.status.message());
    kept->cut = end.cut;
    kept->timings = end.timings;
    for (absl::string_view piece : end.c) absl::StrAppend(&kept->c, piece);
    MutexLock lock(&mutex_);
    ends_[place] = std::move(kept);
    changed_.SignalAll();
  }

  End Await(int place) {
    MutexLock lock(&mutex_);
    while (ends_[place] == nullptr) changed_.Wait(&mutex_);
    const End end = *ends_[place];
    ends_[place].reset();
    return end;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<End>> ends_ ABSL_GUARDED_BY(mutex_);
};

class GrpcTransportTest : public testing::Test {
 protected:
  static constexpr int kPlaces = 4;
  static constexpr absl::Duration kTimeout = absl::Seconds(60);

  GrpcTransportTest() {
    service_.set_gemm(
        [](const v1::GemmRequest& request, v1::GemmResponse* response) {
          response->set_c(absl::StrCat(request.weights(), " of ", request.a()));
          response->mutable_timings()->set_kernel_ns(1234);
          response->mutable_timings()->set_launch_rows(request.m());
          return grpc::Status::OK;
        });
    GemmRequest gemm;
    gemm.m = 2;
    for (const std::string a : {"abcd", "efgh"}) {
      const std::vector<uint8_t> bytes(a.begin(), a.end());
      gemm.weights = absl::StrCat("layer", messages_.size());
      messages_.AddGemm(gemm, messages_.AddOperand(bytes));
    }
  }

  std::unique_ptr<Transport> Open(Connections connections) {
    GrpcTransportOptions options;
    options.target = service_.address();
    options.channels = 2;
    options.connections = connections;
    absl::StatusOr<std::unique_ptr<Transport>> transport =
        GrpcTransportFactory(options, &messages_).Open(kPlaces, &sink_);
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *std::move(transport);
  }

  FakeService service_;
  MessageSet messages_;
  RecordingSink sink_{kPlaces};
};

TEST_F(GrpcTransportTest, SendsTheMessageAndHandsOverTheAnswer) {
  const auto transport = Open(Connections::kLasting);
  for (int round = 0; round < 2; ++round) {  // a place serves again
    for (int place = 0; place < kPlaces; ++place) {
      transport->Start(place, place % 2, kTimeout);
    }
    for (int place = 0; place < kPlaces; ++place) {
      const End end = sink_.Await(place);
      ASSERT_TRUE(end.status.ok()) << end.status;
      EXPECT_EQ(end.c, place % 2 == 0 ? "layer0 of abcd" : "layer1 of efgh");
      EXPECT_EQ(end.timings.kernel, absl::Nanoseconds(1234));
      EXPECT_EQ(end.timings.launch_rows, 2);
    }
  }
}

TEST_F(GrpcTransportTest, EachPlaceIsAClientOfItsOwnIfIdsAreAskedFor) {
  service_.set_gemm(
      [](const v1::GemmRequest& request, v1::GemmResponse* response) {
        response->set_c(absl::StrCat(request.client_id(), " of ", request.a()));
        return grpc::Status::OK;
      });
  GrpcTransportOptions options;
  options.target = service_.address();
  options.client_id_prefix = "load";
  GrpcTransportFactory factory(options, &messages_);
  for (int transport = 0; transport < 2; ++transport) {
    const auto opened = factory.Open(kPlaces, &sink_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    for (int place = 0; place < kPlaces; ++place) {
      (*opened)->Start(place, 0, kTimeout);
      EXPECT_EQ(sink_.Await(place).c,
                absl::StrCat("load-", transport, "-", place, " of abcd"));
    }
  }
}

TEST_F(GrpcTransportTest, AnErrorKeepsItsCodeAndMessage) {
  service_.FailNext(1, grpc::Status(grpc::StatusCode::NOT_FOUND, "no such"));
  const auto transport = Open(Connections::kLasting);
  transport->Start(0, 0, kTimeout);
  const End end = sink_.Await(0);
  EXPECT_EQ(end.status, absl::NotFoundError("no such"));
  EXPECT_FALSE(end.cut);
}

TEST_F(GrpcTransportTest, ACancelledRequestEndsAsSuchAndItsPlaceIsFree) {
  const auto transport = Open(Connections::kLasting);
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
  const auto transport = Open(Connections::kLasting);
  service_.CloseGate();
  transport->Start(0, 0, absl::Milliseconds(20));
  EXPECT_EQ(sink_.Await(0).status.code(), absl::StatusCode::kDeadlineExceeded);
  service_.OpenGate();
}

TEST_F(GrpcTransportTest, ACutConnectionEndsItsRequestsAloneAndIsReplaced) {
  const auto transport = Open(Connections::kCuttable);
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
  EXPECT_EQ(Open(Connections::kLasting)->Disconnect().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(GrpcTransportTest, OpenSaysWhyItCannotConnect) {
  GrpcTransportOptions options;
  options.connect_timeout = absl::Milliseconds(50);
  for (Connections kind : {Connections::kLasting, Connections::kCuttable}) {
    options.connections = kind;
    options.target = "unix:/nowhere/at/all";
    GrpcTransportFactory factory(options, &messages_);
    EXPECT_EQ(factory.Open(1, &sink_).status().code(),
              absl::StatusCode::kUnavailable);
  }
  options.target = "no target";
  EXPECT_EQ(
      GrpcTransportFactory(options, &messages_).Open(1, &sink_).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm
