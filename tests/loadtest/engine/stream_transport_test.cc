// SPDX-License-Identifier: Apache-2.0
//
// Requests over streams to a server whose answers the test decides.

#include "loadtest/engine/stream_transport.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "gtest/gtest.h"
#include "tests/client/fake_service.h"

namespace qgemm {
namespace {

using ServerStream =
    grpc::ServerReaderWriter<v1::GemmStreamResponse, v1::GemmStreamRequest>;

struct End {
  absl::Status status;
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

class StreamTransportTest : public testing::Test {
 protected:
  static constexpr int kPlaces = 4;

  StreamTransportTest() {
    service_.set_stream([this](ServerStream* stream) {
      ++streams_;
      v1::GemmStreamRequest request;
      while (stream->Read(&request)) {
        v1::GemmStreamResponse answer;
        answer.set_request_id(request.request_id());
        answer.set_c(absl::StrCat(request.gemm().weights(), request.a()));
        answer.set_c_bytes(answer.c().size());
        stream->Write(answer);
      }
      return grpc::Status::OK;
    });
    GemmRequest gemm;
    gemm.m = 1;
    for (const std::string a : {"abcd", "efgh"}) {
      const std::vector<uint8_t> bytes(a.begin(), a.end());
      gemm.weights = absl::StrCat("layer", messages_.size());
      messages_.AddGemm(gemm, messages_.AddOperand(bytes));
    }
  }

  std::unique_ptr<Transport> Open() {
    StreamTransportOptions options;
    options.target = service_.address();
    options.channels = 2;
    auto transport =
        StreamTransportFactory(options, &messages_).Open(kPlaces, &sink_);
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *std::move(transport);
  }

  std::atomic<int> streams_{0};
  FakeService service_;
  MessageSet messages_;
  RecordingSink sink_{kPlaces};
};

TEST_F(StreamTransportTest, SendsTheMessageOverOneStreamAConnection) {
  const auto transport = Open();
  for (int round = 0; round < 3; ++round) {  // a place serves again
    for (int place = 0; place < kPlaces; ++place) {
      transport->Start(place, place % 2, absl::InfiniteDuration());
    }
    for (int place = 0; place < kPlaces; ++place) {
      const End end = sink_.Await(place);
      ASSERT_TRUE(end.status.ok()) << end.status;
      EXPECT_EQ(end.c, place % 2 == 0 ? "layer0abcd" : "layer1efgh");
    }
  }
  EXPECT_EQ(streams_, 2);
}

TEST_F(StreamTransportTest, ACancelIsToldToTheServer) {
  service_.set_stream([](ServerStream* stream) {
    v1::GemmStreamRequest request;
    while (stream->Read(&request)) {
      if (!request.cancel()) continue;
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

TEST_F(StreamTransportTest, ConnectionsAreNotCut) {
  EXPECT_EQ(Open()->Disconnect().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace qgemm
