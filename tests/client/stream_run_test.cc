// SPDX-License-Identifier: Apache-2.0
//
// Runs of programs on the client's stream, against a service that the test
// scripts. What they share with multiplications is gemm_stream_test's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "qgemm/client.h"
#include "tests/client/fake_service.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

using Result = absl::StatusOr<RunResult>;
using ServerStream =
    grpc::ServerReaderWriter<v1::GemmStreamResponse, v1::GemmStreamRequest>;

v1::GemmStreamResponse Answer(uint64_t id, const std::string& c) {
  v1::GemmStreamResponse response;
  response.set_request_id(id);
  response.set_c_bytes(c.size());
  response.set_c(c);
  return response;
}

// Answers each request with what it sent.
grpc::Status AnswerEach(ServerStream* stream) {
  v1::GemmStreamRequest request;
  while (stream->Read(&request)) {
    stream->Write(Answer(request.request_id(), request.a()));
  }
  return grpc::Status::OK;
}

grpc::Status AnswerNone(ServerStream* stream) {
  v1::GemmStreamRequest request;
  while (stream->Read(&request)) {
  }
  return grpc::Status::OK;
}

class StreamRunTest : public testing::Test {
 protected:
  StreamRunTest() : bytes_(kM * kRowBytes) {
    service_.set_stream(AnswerEach);
    ClientOptions options;
    options.connect_timeout = absl::Minutes(5);
    client_ = *Client::Connect(service_.address(), options);
    Fill();
  }

  void Fill() {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = static_cast<uint8_t>(i * 7);
    }
  }

  std::unique_ptr<GemmStream> Open(const GemmStreamOptions& options = {}) {
    auto stream = client_->GemmStream(options);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }

  // Two inputs, the first of 2 bytes a row; the stream answers them.
  RunRequest Request() const {
    RunRequest request;
    request.program = "ffn";
    request.m = kM;
    const auto all = absl::MakeConstSpan(bytes_);
    request.inputs = {all.first(kM * 2), all.subspan(kM * 2)};
    return request;
  }
  std::string Inputs() const {
    return std::string(bytes_.begin(), bytes_.end());
  }

  static std::future<Result> Submit(GemmStream* stream,
                                    const RunRequest& request) {
    auto promise = std::make_shared<std::promise<Result>>();
    std::future<Result> future = promise->get_future();
    const auto id = stream->Submit(request, [promise](Result result) {
      promise->set_value(std::move(result));
    });
    EXPECT_TRUE(id.ok()) << id.status();
    return future;
  }

  static constexpr int64_t kM = 3;
  static constexpr int64_t kRowBytes = 8;
  std::vector<uint8_t> bytes_;
  FakeService service_;
  std::unique_ptr<Client> client_;
};

TEST_F(StreamRunTest, SendsTheRequestAsAsked) {
  std::promise<v1::GemmStreamRequest> sent;
  service_.set_stream([&](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    sent.set_value(request);
    return grpc::Status::OK;
  });
  RunRequest options = Request();
  options.client_id = "frontend/7";
  options.priority = RequestPriority::kHigh;
  options.deadline = absl::Now() + absl::Minutes(10);
  const auto stream = Open();
  Submit(stream.get(), options);
  const v1::GemmStreamRequest request = sent.get_future().get();
  const v1::GemmStreamOpen& open = request.open();
  ASSERT_TRUE(open.has_run());
  EXPECT_EQ(open.run().program(), "ffn");
  EXPECT_EQ(open.run().m(), static_cast<uint64_t>(kM));
  EXPECT_EQ(open.run().client_id(), "frontend/7");
  EXPECT_EQ(open.run().priority(), v1::PRIORITY_HIGH);
  EXPECT_TRUE(open.run().inputs().empty());
  EXPECT_EQ(request.a(), Inputs());
  EXPECT_EQ(open.a_bytes(), bytes_.size());
  EXPECT_GT(open.timeout_ns(), 0u);
  EXPECT_LE(open.timeout_ns(), 600'000'000'000u);
}

TEST_F(StreamRunTest, RunsAndProductsShareAStream) {
  service_.set_stream([](ServerStream* stream) {
    v1::GemmStreamRequest run, gemm;
    stream->Read(&run);
    stream->Read(&gemm);
    EXPECT_TRUE(run.open().has_run());
    EXPECT_TRUE(gemm.open().has_gemm());
    stream->Write(Answer(gemm.request_id(), gemm.a()));
    v1::GemmStreamResponse answer = Answer(run.request_id(), "abcdef");
    answer.mutable_timings()->set_kernel_ns(1500);
    stream->Write(answer);
    return grpc::Status::OK;
  });
  const auto stream = Open();
  std::future<Result> run = Submit(stream.get(), Request());
  GemmRequest product;
  product.weights = "layer";
  product.m = kM;
  product.a = bytes_;
  std::promise<absl::StatusOr<GemmResult>> multiplied;
  ASSERT_TRUE(stream
                  ->Submit(product,
                           [&](absl::StatusOr<GemmResult> result) {
                             multiplied.set_value(std::move(result));
                           })
                  .ok());
  EXPECT_EQ(multiplied.get_future().get()->c, Inputs());
  const Result result = run.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outputs, "abcdef");
  EXPECT_EQ(result->m, kM);
  EXPECT_EQ(result->row_bytes, 2);
  EXPECT_EQ(result->timings.kernel, absl::Nanoseconds(1500));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamRunTest, FragmentsCrossTheBordersOfInputsAndOutputs) {
  constexpr size_t kFragment = 4096;
  bytes_.resize(kM * 5000);
  Fill();
  std::promise<std::vector<v1::GemmStreamRequest>> sent;
  service_.set_stream([&](ServerStream* stream) {
    std::vector<v1::GemmStreamRequest> messages;
    v1::GemmStreamRequest message;
    std::string a;
    while (a.size() < bytes_.size() && stream->Read(&message)) {
      a += message.a();
      messages.push_back(message);
    }
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
  RunRequest request = Request();
  const auto all = absl::MakeConstSpan(bytes_);
  request.inputs = {all.first(5001), all.subspan(5001, 0), all.subspan(5001, 2),
                    all.subspan(5003)};
  // Sizes that no fragment has.
  std::vector<std::vector<uint8_t>> memory = {
      std::vector<uint8_t>(1), std::vector<uint8_t>(0),
      std::vector<uint8_t>(4444), std::vector<uint8_t>(bytes_.size() - 4445)};
  for (auto& piece : memory) request.outputs.push_back(absl::MakeSpan(piece));
  GemmStreamOptions options;
  options.fragment_bytes = kFragment;
  const auto stream = Open(options);
  const Result result = Submit(stream.get(), request).get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->outputs.empty());
  std::vector<uint8_t> joined;
  for (const auto& piece : memory) {
    joined.insert(joined.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(joined, bytes_);
  uint64_t offset = 0;
  const std::vector<v1::GemmStreamRequest> messages = sent.get_future().get();
  for (const v1::GemmStreamRequest& message : messages) {
    EXPECT_EQ(message.has_open(), offset == 0);
    EXPECT_EQ(message.fragment().offset(), offset);
    EXPECT_LE(message.a().size(), kFragment);
    offset += message.a().size();
  }
  EXPECT_EQ(messages.size(), (bytes_.size() + kFragment - 1) / kFragment);
}

TEST_F(StreamRunTest, MemoryOfAnotherSizeEndsThatRunAlone) {
  std::vector<uint8_t> memory(1, 7);
  RunRequest request = Request();
  request.outputs = {absl::MakeSpan(memory)};
  const auto stream = Open();
  const absl::Status status = Submit(stream.get(), request).get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("RunRequest::outputs"));
  EXPECT_EQ(memory, std::vector<uint8_t>(1, 7));
  const Result after = Submit(stream.get(), Request()).get();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->outputs, Inputs());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamRunTest, AnErrorEndsThatRunAlone) {
  service_.set_stream([](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    v1::GemmStreamResponse refusal;
    refusal.set_request_id(request.request_id());
    refusal.mutable_error()->set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
    refusal.mutable_error()->set_message("full");
    refusal.mutable_error()->set_retry_delay_ns(50'000'000);
    stream->Write(refusal);
    return AnswerEach(stream);
  });
  const auto stream = Open();
  const Result refused = Submit(stream.get(), Request()).get();
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(RetryDelay(refused.status()), absl::Milliseconds(50));
  EXPECT_TRUE(Submit(stream.get(), Request()).get().ok());
}

TEST_F(StreamRunTest, AnAnswerWithoutWholeRowsBreaksTheStream) {
  service_.set_stream([](ServerStream* stream) {
    v1::GemmStreamRequest request;
    stream->Read(&request);
    stream->Write(Answer(request.request_id(), std::string(kM + 1, 'c')));
    return AnswerNone(stream);
  });
  const auto stream = Open();
  const absl::Status status = Submit(stream.get(), Request()).get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_EQ(stream->Finish(), status);
}

TEST_F(StreamRunTest, ABadRequestIsRefusedWithoutBeingSent) {
  const auto stream = Open();
  const auto code = [&](const RunRequest& request) {
    return stream->Submit(request, nullptr).status().code();
  };
  RunRequest bad = Request();
  bad.m = 0;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = Request();
  bad.inputs.clear();
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  const std::vector<uint8_t> large((1 << 20) / kM * kM + kM);
  bad = Request();
  bad.inputs = {large};
  EXPECT_EQ(code(bad), absl::StatusCode::kResourceExhausted);
  bad = Request();
  bad.deadline = absl::Now();
  EXPECT_EQ(code(bad), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamRunTest, BorrowedInputsAreReleasedOnceHoweverItEnds) {
  std::atomic<int> released{0};
  RunRequest request = Request();
  request.inputs_released = [&released] { ++released; };
  auto stream = Open();
  EXPECT_EQ(Submit(stream.get(), request).get()->outputs, Inputs());
  request.m = 0;
  EXPECT_FALSE(stream->Submit(request, nullptr).ok());
  request.m = kM;
  service_.set_stream(AnswerNone);
  auto silent = Open();
  std::future<Result> cancelled = Submit(silent.get(), request);
  silent.reset();
  EXPECT_EQ(cancelled.get().status().code(), absl::StatusCode::kCancelled);
  while (released < 3) std::this_thread::yield();  // gRPC's own threads
  stream.reset();
  client_.reset();
  EXPECT_EQ(released, 3);
}

}  // namespace
}  // namespace qgemm
