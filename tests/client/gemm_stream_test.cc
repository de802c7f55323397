// SPDX-License-Identifier: Apache-2.0
//
// The client's stream against a service that the test scripts: the messages
// sent, the results of answers, and every way to end.

#include "qgemm/gemm_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "qgemm/client.h"
#include "tests/client/fake_service.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

using Result = absl::StatusOr<GemmResult>;
using ServerStream =
    grpc::ServerReaderWriter<v1::GemmStreamResponse, v1::GemmStreamRequest>;

// Answers to a request with A itself, so that n is k.
v1::GemmStreamResponse Answer(uint64_t id, const std::string& c) {
  v1::GemmStreamResponse response;
  response.set_request_id(id);
  response.set_c_bytes(c.size());
  response.set_c(c);
  return response;
}

grpc::Status AnswerEach(ServerStream* stream) {
  v1::GemmStreamRequest request;
  while (stream->Read(&request)) {
    stream->Write(Answer(request.request_id(), request.a()));
  }
  return grpc::Status::OK;
}

// Reads until the client ends, and answers nothing.
grpc::Status AnswerNone(ServerStream* stream) {
  v1::GemmStreamRequest request;
  while (stream->Read(&request)) {
  }
  return grpc::Status::OK;
}

class GemmStreamTest : public testing::Test {
 protected:
  GemmStreamTest() : a_(kM * kColumns * 2) {
    for (size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<uint8_t>(i);
    service_.set_stream(AnswerEach);
    ClientOptions options;
    options.connect_timeout = absl::Minutes(5);
    client_ = *Client::Connect(service_.address(), options);
  }

  std::unique_ptr<GemmStream> Open(const GemmStreamOptions& options = {}) {
    auto stream = client_->GemmStream(options);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }

  GemmRequest Request() const {
    GemmRequest request;
    request.weights = "layer";
    request.m = kM;
    request.a = a_;
    return request;
  }
  std::string A() const { return std::string(a_.begin(), a_.end()); }

  // Submits a request that is taken.
  static std::future<Result> Submit(GemmStream* stream,
                                    const GemmRequest& options) {
    auto promise = std::make_shared<std::promise<Result>>();
    std::future<Result> future = promise->get_future();
    const auto id = stream->Submit(options, [promise](Result result) {
      promise->set_value(std::move(result));
    });
    EXPECT_TRUE(id.ok()) << id.status();
    return future;
  }

  static constexpr int64_t kM = 3;
  static constexpr int64_t kColumns = 8;
  std::vector<uint8_t> a_;
  FakeService service_;
  std::unique_ptr<Client> client_;
};

TEST_F(GemmStreamTest, OpenRefusesOptionsOutOfRange) {
  GemmStreamOptions options;
  options.window = 0;
  EXPECT_THAT(std::string(client_->GemmStream(options).status().message()),
              HasSubstr("window is 0"));
  options = GemmStreamOptions();
  options.fragment_bytes = 4095;
  EXPECT_THAT(std::string(client_->GemmStream(options).status().message()),
              HasSubstr("fragment_bytes is 4095"));
}

TEST_F(GemmStreamTest, SendsTheRequestAsAsked) {
  std::promise<v1::GemmStreamRequest> sent;
  service_.set_stream([&](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    sent.set_value(request);
    return grpc::Status::OK;
  });
  GemmRequest options = Request();
  options.a_type = FloatType::kBFloat16;
  options.c_type = FloatType::kFloat32;
  options.mode = ComputeMode::kA8;
  options.deadline = absl::Now() + absl::Minutes(10);
  const auto stream = Open();
  Submit(stream.get(), options);
  const v1::GemmStreamRequest request = sent.get_future().get();
  const v1::GemmStreamOpen& open = request.open();
  EXPECT_EQ(open.gemm().weights(), "layer");
  EXPECT_EQ(open.gemm().m(), kM);
  EXPECT_EQ(open.gemm().a_type(), v1::FLOAT_TYPE_BF16);
  EXPECT_EQ(open.gemm().c_type(), v1::FLOAT_TYPE_FP32);
  EXPECT_EQ(open.gemm().mode(), v1::COMPUTE_MODE_A8);
  EXPECT_TRUE(open.gemm().a().empty());
  EXPECT_EQ(request.a(), A());
  EXPECT_EQ(open.a_bytes(), a_.size());
  EXPECT_GT(open.timeout_ns(), 0u);
  EXPECT_LE(open.timeout_ns(), 600'000'000'000u);
}

TEST_F(GemmStreamTest, AnswersComeInAnyOrderWithBytesShapeAndTimings) {
  service_.set_stream([&](ServerStream* stream) {
    v1::GemmStreamRequest first, second;
    stream->Read(&first);
    stream->Read(&second);
    v1::GemmStreamResponse answer = Answer(second.request_id(), second.a());
    answer.mutable_timings()->set_kernel_ns(1500);
    stream->Write(answer);
    stream->Write(Answer(first.request_id(), first.a()));
    return grpc::Status::OK;
  });
  const auto stream = Open();
  std::future<Result> first = Submit(stream.get(), Request());
  std::future<Result> second = Submit(stream.get(), Request());
  const Result result = second.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->c, A());
  EXPECT_EQ(result->m, kM);
  EXPECT_EQ(result->n, kColumns);
  EXPECT_EQ(result->timings.kernel, absl::Nanoseconds(1500));
  EXPECT_EQ(first.get()->c, A());
}

TEST_F(GemmStreamTest, LargeOperandsGoInFragmentsThatFollowOneAnother) {
  constexpr size_t kFragment = 4096;
  std::promise<std::vector<v1::GemmStreamRequest>> sent;
  a_.resize(10 * kFragment + 100 * kM * 2);
  for (size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<uint8_t>(i * 7);
  a_.resize(a_.size() / (kM * 2) * (kM * 2));
  service_.set_stream([&](ServerStream* stream) {
    std::vector<v1::GemmStreamRequest> messages;
    v1::GemmStreamRequest message;
    std::string a;
    while (a.size() < a_.size() && stream->Read(&message)) {
      a += message.a();
      messages.push_back(message);
    }
    // Answered in fragments of other sizes.
    v1::GemmStreamResponse answer;
    answer.set_request_id(message.request_id());
    answer.set_c_bytes(a.size());
    for (size_t at = 0; at < a.size(); at += 1000) {
      answer.set_offset(at);
      answer.set_c(a.substr(at, 1000));
      stream->Write(answer);
    }
    sent.set_value(messages);
    return grpc::Status::OK;
  });
  GemmStreamOptions options;
  options.fragment_bytes = kFragment;
  const auto stream = Open(options);
  const Result result = Submit(stream.get(), Request()).get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->c, A());
  const std::vector<v1::GemmStreamRequest> messages = sent.get_future().get();
  uint64_t offset = 0;
  for (const v1::GemmStreamRequest& message : messages) {
    EXPECT_EQ(message.has_open(), offset == 0);
    EXPECT_EQ(message.has_fragment(), offset != 0);
    EXPECT_EQ(message.fragment().offset(), offset);
    EXPECT_LE(message.a().size(), kFragment);
    offset += message.a().size();
  }
  EXPECT_EQ(messages.size(), (a_.size() + kFragment - 1) / kFragment);
}

TEST_F(GemmStreamTest, FragmentsGoIntoTheRequestsMemory) {
  service_.set_stream([&](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    v1::GemmStreamResponse answer;
    answer.set_request_id(request.request_id());
    answer.set_c_bytes(request.a().size());
    for (size_t at = 0; at < request.a().size(); at += 5) {
      answer.set_offset(at);
      answer.set_c(request.a().substr(at, 5));
      stream->Write(answer);
    }
    return grpc::Status::OK;
  });
  std::vector<uint8_t> c(a_.size());
  GemmRequest request = Request();
  request.c = absl::MakeSpan(c);
  const auto stream = Open();
  const Result result = Submit(stream.get(), request).get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(c, a_);
  EXPECT_TRUE(result->c.empty());
}

TEST_F(GemmStreamTest, MemoryOfAnotherSizeEndsThatRequestAlone) {
  std::vector<uint8_t> c(1);
  GemmRequest request = Request();
  request.c = absl::MakeSpan(c);
  const auto stream = Open();
  EXPECT_EQ(Submit(stream.get(), request).get().status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Submit(stream.get(), Request()).get().ok());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GemmStreamTest, AnErrorOfOneRequestEndsThatOneAlone) {
  service_.set_stream([&](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    v1::GemmStreamResponse refusal;
    refusal.set_request_id(request.request_id());
    refusal.mutable_error()->set_code(grpc::StatusCode::NOT_FOUND);
    refusal.mutable_error()->set_message("no such layer");
    stream->Write(refusal);
    return AnswerEach(stream);
  });
  const auto stream = Open();
  const Result refused = Submit(stream.get(), Request()).get();
  EXPECT_EQ(refused.status(), absl::NotFoundError("no such layer"));
  EXPECT_TRUE(Submit(stream.get(), Request()).get().ok());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GemmStreamTest, ARefusalSaysWhenToTryAgain) {
  service_.set_stream([&](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    v1::GemmStreamResponse refusal;
    refusal.set_request_id(request.request_id());
    refusal.mutable_error()->set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
    refusal.mutable_error()->set_retry_delay_ns(50'000'000);
    stream->Write(refusal);
    return AnswerEach(stream);
  });
  const auto stream = Open();
  const Result refused = Submit(stream.get(), Request()).get();
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(RetryDelay(refused.status()), absl::Milliseconds(50));
  EXPECT_TRUE(Submit(stream.get(), Request()).get().ok());
  EXPECT_EQ(RetryDelay(absl::NotFoundError("")), std::nullopt);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GemmStreamTest, ABadRequestIsRefusedWithoutBeingSent) {
  const auto stream = Open();
  GemmRequest bad = Request();
  bad.m = 0;
  EXPECT_EQ(stream->Submit(bad, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::vector<uint8_t> large((1 << 20) + kM * 2);
  bad = Request();
  bad.a = absl::MakeConstSpan(large).subspan(0, large.size() / 6 * 6);
  EXPECT_EQ(stream->Submit(bad, nullptr).status().code(),
            absl::StatusCode::kResourceExhausted);
  bad = Request();
  bad.deadline = absl::Now();
  EXPECT_EQ(stream->Submit(bad, nullptr).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GemmStreamTest, SubmitWaitsWhileTheWindowIsFull) {
  constexpr int kWindow = 2, kRequests = 7;
  std::atomic<int> read{0}, most{0}, answered{0};
  std::promise<void> full;
  std::promise<void> go;
  service_.set_stream([&](ServerStream* stream) {
    v1::GemmStreamRequest request;
    std::vector<v1::GemmStreamRequest> waiting;
    while (stream->Read(&request)) {
      waiting.push_back(request);
      most = std::max<int>(most, ++read - answered);
      if (waiting.size() < kWindow && read < kRequests) continue;
      if (read == kWindow) {
        full.set_value();
        go.get_future().wait();
      }
      for (const auto& each : waiting) {
        ++answered;
        stream->Write(Answer(each.request_id(), each.a()));
      }
      waiting.clear();
    }
    return grpc::Status::OK;
  });
  GemmStreamOptions options;
  options.window = kWindow;
  const auto stream = Open(options);
  std::atomic<int> submitted{0};
  std::vector<std::future<Result>> results;
  std::thread submitter([&] {
    for (int i = 0; i < kRequests; ++i) {
      results.push_back(Submit(stream.get(), Request()));
      ++submitted;
    }
  });
  full.get_future().wait();
  EXPECT_LE(submitted, kWindow);
  go.set_value();
  submitter.join();
  for (auto& result : results) EXPECT_TRUE(result.get().ok());
  EXPECT_EQ(most, kWindow);
}

TEST_F(GemmStreamTest, ABrokenStreamEndsAllThatIsOutstandingWithItsReason) {
  service_.set_stream([](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    stream->Read(&request);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server drains");
  });
  const auto stream = Open();
  std::future<Result> first = Submit(stream.get(), Request());
  std::future<Result> second = Submit(stream.get(), Request());
  const absl::Status reason = absl::UnavailableError("the server drains");
  EXPECT_EQ(first.get().status(), reason);
  EXPECT_EQ(second.get().status(), reason);
  EXPECT_EQ(stream->Submit(Request(), nullptr).status(), reason);
  EXPECT_EQ(stream->Finish(), reason);
}

TEST_F(GemmStreamTest, AnEndWithoutAnAnswerIsTheServersFault) {
  service_.set_stream([](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    return grpc::Status::OK;
  });
  const auto stream = Open();
  EXPECT_EQ(Submit(stream.get(), Request()).get().status().code(),
            absl::StatusCode::kInternal);
}

// A wrong answer to a request of 48 bytes.
struct BadAnswer {
  const char* name;
  std::function<void(v1::GemmStreamResponse*)> change;
};

class BadAnswerTest : public GemmStreamTest,
                      public testing::WithParamInterface<BadAnswer> {};

TEST_P(BadAnswerTest, BreaksTheStream) {
  service_.set_stream([](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    v1::GemmStreamResponse answer = Answer(request.request_id(), request.a());
    GetParam().change(&answer);
    stream->Write(answer);
    return AnswerNone(stream);
  });
  const auto stream = Open();
  const absl::Status status = Submit(stream.get(), Request()).get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_EQ(stream->Finish(), status);
}

INSTANTIATE_TEST_SUITE_P(
    Answers, BadAnswerTest,
    testing::Values(
        BadAnswer{"OfNoRequest", [](auto* a) { a->set_request_id(99); }},
        BadAnswer{"AGap", [](auto* a) { a->set_offset(1); }},
        BadAnswer{"MoreThanItSays", [](auto* a) { a->set_c_bytes(42); }},
        BadAnswer{"NoBytes", [](auto* a) { a->clear_c(); }},
        BadAnswer{"NoColumns", [](auto* a) { a->set_c_bytes(47); }},
        BadAnswer{"Negative", [](auto* a) { a->set_c_bytes(~uint64_t{0}); }},
        BadAnswer{"AnErrorThatIsNone", [](auto* a) { a->mutable_error(); }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(GemmStreamTest, CancelTellsTheServer) {
  std::promise<void> sent;
  service_.set_stream([&](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    const uint64_t id = request.request_id();
    sent.set_value();
    stream->Read(&request);
    EXPECT_TRUE(request.has_cancel());
    EXPECT_EQ(request.request_id(), id);
    v1::GemmStreamResponse cancelled;
    cancelled.set_request_id(id);
    cancelled.mutable_error()->set_code(grpc::StatusCode::CANCELLED);
    stream->Write(cancelled);
    return AnswerEach(stream);
  });
  const auto stream = Open();
  std::promise<Result> result;
  const auto id = stream->Submit(
      Request(), [&](Result ended) { result.set_value(std::move(ended)); });
  ASSERT_TRUE(id.ok());
  sent.get_future().wait();
  stream->Cancel(*id);
  stream->Cancel(*id + 1);
  EXPECT_EQ(result.get_future().get().status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_TRUE(Submit(stream.get(), Request()).get().ok());
}

TEST_F(GemmStreamTest, ABorrowedOperandIsReleasedOnceHoweverItEnds) {
  std::atomic<int> released{0};
  GemmRequest request = Request();
  request.a_released = [&released] { ++released; };
  auto stream = Open();
  EXPECT_EQ(Submit(stream.get(), request).get()->c, A());
  while (released < 1) std::this_thread::yield();
  request.m = 0;
  EXPECT_FALSE(stream->Submit(request, nullptr).ok());
  EXPECT_EQ(released, 2);
  request.m = kM;
  service_.set_stream(AnswerNone);
  stream = Open();
  std::future<Result> cancelled = Submit(stream.get(), request);
  stream.reset();
  EXPECT_FALSE(cancelled.get().ok());
  while (released < 3) std::this_thread::yield();
  EXPECT_EQ(released, 3);
}

TEST_F(GemmStreamTest, DestroyingTheStreamCancelsWhatIsOutstanding) {
  service_.set_stream(AnswerNone);
  auto stream = Open();
  std::future<Result> result = Submit(stream.get(), Request());
  stream.reset();
  ASSERT_EQ(result.wait_for(std::chrono::seconds(0)),
            std::future_status::ready);
  EXPECT_EQ(result.get().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(GemmStreamTest, DestroyingTheClientEndsItsStreams) {
  service_.set_stream(AnswerNone);
  const auto stream = Open();
  std::future<Result> result = Submit(stream.get(), Request());
  client_.reset();
  ASSERT_EQ(result.wait_for(std::chrono::seconds(0)),
            std::future_status::ready);
  EXPECT_EQ(result.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(stream->Submit(Request(), nullptr).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
}

TEST_F(GemmStreamTest, ACallbackMaySubmitBeyondTheWindow) {
  GemmStreamOptions options;
  options.window = 1;
  const auto stream = Open(options);
  std::promise<bool> done;
  std::atomic<int> left{20};
  std::function<void(Result)> next = [&](Result result) {
    if (--left == 0) {
      done.set_value(result.ok());
      return;
    }
    EXPECT_TRUE(stream->Submit(Request(), next).ok());
  };
  ASSERT_TRUE(stream->Submit(Request(), next).ok());
  EXPECT_TRUE(done.get_future().get());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GemmStreamTest, ACallbackMayNotFinishButMayDestroyTheStream) {
  std::shared_ptr<GemmStream> stream = Open();
  GemmStream* const raw = stream.get();
  std::promise<absl::Status> finished;
  ASSERT_TRUE(raw->Submit(Request(),
                          [&finished,
                           stream = std::move(stream)](const Result&) mutable {
                            const absl::Status status = stream->Finish();
                            stream.reset();
                            finished.set_value(status);
                          })
                  .ok());
  EXPECT_EQ(finished.get_future().get().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(GemmStreamTest, NothingIsTakenAfterFinish) {
  const auto stream = Open();
  std::future<Result> result = Submit(stream.get(), Request());
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(result.get()->c, A());
  EXPECT_EQ(stream->Submit(Request(), nullptr).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GemmStreamTest, TheStreamsDeadlineEndsIt) {
  service_.set_stream(AnswerNone);
  GemmStreamOptions options;
  options.deadline = absl::Now() + absl::Milliseconds(200);
  auto stream = client_->GemmStream(options);
  while (!stream.ok()) {  // the deadline came first
    options.deadline = absl::Now() + absl::Seconds(1);
    stream = client_->GemmStream(options);
  }
  EXPECT_EQ(Submit(stream->get(), Request()).get().status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(GemmStreamTest, ManyThreadsMaySubmit) {
  constexpr int kThreads = 4, kEach = 100;
  const auto stream = Open();
  std::atomic<int> answers{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(stream
                        ->Submit(Request(),
                                 [&](const Result& result) {
                                   answers += result.ok() ? 1 : 0;
                                 })
                        .ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answers, kThreads * kEach);
}

}  // namespace
}  // namespace qgemm
