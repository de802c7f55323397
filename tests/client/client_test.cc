// SPDX-License-Identifier: Apache-2.0

#include "qgemm/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/mutex.h"
#include "rpc/grpc_status.h"
#include "tests/client/fake_service.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Long enough that a test fails by its own timeout, not by this.
constexpr absl::Duration kFar = absl::Minutes(5);

ClientOptions QuickOptions() {
  ClientOptions options;
  options.connect_timeout = kFar;
  options.retry.initial_backoff = absl::Milliseconds(1);
  options.retry.max_backoff = absl::Milliseconds(4);
  return options;
}

std::unique_ptr<Client> ConnectTo(const FakeService& service,
                                  const ClientOptions& options) {
  auto client = Client::Connect(service.address(), options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

grpc::Status Unavailable() {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
}

class ClientTest : public testing::Test {
 protected:
  ClientTest() : a_(kM * kColumns * 2) {
    for (size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<uint8_t>(i);
  }

  // The fake answers A, so that n is k.
  GemmRequest Request() const {
    GemmRequest request;
    request.weights = "layer";
    request.m = kM;
    request.a = a_;
    return request;
  }

  static constexpr int64_t kM = 3;
  static constexpr int64_t kColumns = 8;
  std::vector<uint8_t> a_;
  FakeService service_;
};

TEST_F(ClientTest, ConnectRefusesTargetsWithoutPort) {
  for (const char* target :
       {"", "localhost", "localhost:", ":50051", "unix:"}) {
    EXPECT_EQ(Client::Connect(target).status().code(),
              absl::StatusCode::kInvalidArgument)
        << target;
  }
}

TEST_F(ClientTest, ConnectRefusesPathsThatNoSocketHas) {
  EXPECT_EQ(Client::Connect("unix:/" + std::string(200, 'p')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, ConnectRefusesOptionsOutOfRange) {
  ClientOptions options;
  options.channels = 0;
  EXPECT_THAT(
      std::string(
          Client::Connect(service_.address(), options).status().message()),
      HasSubstr("channels"));
}

TEST_F(ClientTest, ConnectNamesTheReasonIfNobodyListens) {
  ClientOptions options;
  options.connect_timeout = absl::Milliseconds(50);
  const absl::Status status =
      Client::Connect("unix:nobody.sock", options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("No such file"));
}

TEST_F(ClientTest, GemmSendsTheRequestAsAsked) {
  service_.set_gemm([](const v1::GemmRequest&, v1::GemmResponse* response) {
    response->set_c(std::string(kM * 5 * 4, 'c'));
    return grpc::Status::OK;
  });
  const auto client = ConnectTo(service_, QuickOptions());
  GemmRequest request = Request();
  request.a_type = FloatType::kBFloat16;
  request.c_type = FloatType::kFloat32;
  request.mode = ComputeMode::kA8;
  ASSERT_TRUE(client->Gemm(request).ok());
  const v1::GemmRequest seen = service_.gemm_request();
  EXPECT_EQ(seen.weights(), "layer");
  EXPECT_EQ(seen.m(), static_cast<uint64_t>(kM));
  EXPECT_EQ(seen.a_type(), v1::FLOAT_TYPE_BF16);
  EXPECT_EQ(seen.c_type(), v1::FLOAT_TYPE_FP32);
  EXPECT_EQ(seen.mode(), v1::COMPUTE_MODE_A8);
  EXPECT_EQ(seen.a(), std::string(a_.begin(), a_.end()));
}

TEST_F(ClientTest, GemmAnswersBytesShapeAndTimings) {
  service_.set_gemm([](const v1::GemmRequest&, v1::GemmResponse* response) {
    response->set_c(std::string(kM * 5 * 4, 'c'));
    response->mutable_timings()->set_kernel_ns(1500);
    response->mutable_timings()->set_launch_rows(64);
    return grpc::Status::OK;
  });
  const auto client = ConnectTo(service_, QuickOptions());
  GemmRequest request = Request();
  request.c_type = FloatType::kFloat32;
  const auto result = client->Gemm(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->c, std::string(kM * 5 * 4, 'c'));
  EXPECT_EQ(result->m, kM);
  EXPECT_EQ(result->n, 5);
  EXPECT_EQ(result->timings.kernel, absl::Nanoseconds(1500));
  EXPECT_EQ(result->timings.launch_rows, 64);
}

TEST_F(ClientTest, GemmRefusesAnAnswerThatFitsNoShape) {
  service_.set_gemm([](const v1::GemmRequest&, v1::GemmResponse* response) {
    response->set_c(std::string(kM * 2 + 1, 'c'));
    return grpc::Status::OK;
  });
  const auto client = ConnectTo(service_, QuickOptions());
  EXPECT_EQ(client->Gemm(Request()).status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(ClientTest, GemmRefusesBytesThatFitNoColumnsWithoutACall) {
  const auto client = ConnectTo(service_, QuickOptions());
  GemmRequest request = Request();
  request.a = absl::MakeConstSpan(a_).subspan(1);
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  request = Request();
  request.m = int64_t{1} << 62;
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  request.m = 0;
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(service_.calls(), 0);
}

TEST_F(ClientTest, GemmBeyondTheMessageLimitNamesIt) {
  ClientOptions client_options = QuickOptions();
  client_options.max_message_bytes = 1 << 16;
  const auto client = ConnectTo(service_, client_options);
  const std::vector<uint8_t> big(1 << 17);
  GemmRequest request = Request();
  request.m = 1;
  request.a = big;
  const absl::Status status = client->Gemm(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_message_bytes"));
}

TEST_F(ClientTest, AnAnswerBeyondTheMessageLimitIsResourceExhausted) {
  service_.set_gemm([](const v1::GemmRequest&, v1::GemmResponse* response) {
    response->set_c(std::string(1 << 17, 'c'));
    return grpc::Status::OK;
  });
  ClientOptions options = QuickOptions();
  options.max_message_bytes = 1 << 16;
  const auto client = ConnectTo(service_, options);
  EXPECT_EQ(client->Gemm(Request()).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(ClientTest, AnswersAboveGrpcsOwnLimitArrive) {
  const size_t bytes = (size_t{8} << 20) / kM * kM * 2;
  service_.set_gemm(
      [bytes](const v1::GemmRequest&, v1::GemmResponse* response) {
        response->set_c(std::string(bytes, 'c'));
        return grpc::Status::OK;
      });
  const auto client = ConnectTo(service_, QuickOptions());
  const auto result = client->Gemm(Request());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->c.size(), bytes);
}

TEST_F(ClientTest, SendsClientIdAndPriority) {
  Mutex mutex;
  std::vector<v1::GemmRequest> seen;
  service_.set_gemm(
      [&](const v1::GemmRequest& request, v1::GemmResponse* response) {
        MutexLock lock(&mutex);
        seen.push_back(request);
        response->set_c(std::string(kM * 2, 'c'));
        return grpc::Status::OK;
      });
  const auto client = ConnectTo(service_, QuickOptions());
  GemmRequest request = Request();
  EXPECT_TRUE(client->Gemm(request).ok());
  request.client_id = "frontend/7";
  request.priority = RequestPriority::kHigh;
  EXPECT_TRUE(client->Gemm(request).ok());
  MutexLock lock(&mutex);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].client_id(), "");
  EXPECT_EQ(seen[0].priority(), v1::PRIORITY_UNSPECIFIED);
  EXPECT_EQ(seen[1].client_id(), "frontend/7");
  EXPECT_EQ(seen[1].priority(), v1::PRIORITY_HIGH);
}

TEST_F(ClientTest, RetriesUnavailable) {
  const auto client = ConnectTo(service_, QuickOptions());
  service_.FailNext(2, Unavailable());
  const auto result = client->Gemm(Request());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->attempts, 3);
  EXPECT_EQ(service_.calls(), 3);
}

TEST_F(ClientTest, GivesUpAfterMaxAttempts) {
  ClientOptions options = QuickOptions();
  options.retry.max_attempts = 3;
  const auto client = ConnectTo(service_, options);
  service_.FailNext(100, Unavailable());
  const absl::Status status = client->Gemm(Request()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "draining");
  EXPECT_EQ(service_.calls(), 3);
}

TEST_F(ClientTest, DoesNotRetryOtherCodes) {
  const auto client = ConnectTo(service_, QuickOptions());
  for (const auto code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::NOT_FOUND,
        grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::ABORTED,
        grpc::StatusCode::DATA_LOSS, grpc::StatusCode::INTERNAL,
        grpc::StatusCode::UNIMPLEMENTED}) {
    const int before = service_.calls();
    service_.FailNext(1, grpc::Status(code, "why"));
    const absl::Status status = client->Gemm(Request()).status();
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code));
    EXPECT_EQ(status.message(), "why");
    EXPECT_EQ(service_.calls(), before + 1);
  }
}

grpc::Status FullQueue(absl::Duration retry_delay) {
  return ToGrpcStatus(absl::ResourceExhaustedError("the queue is full"),
                      retry_delay);
}

TEST_F(ClientTest, RetriesAFullQueueAfterTheServersDelay) {
  constexpr absl::Duration kDelay = absl::Milliseconds(30);
  const auto client = ConnectTo(service_, QuickOptions());
  service_.FailNext(2, FullQueue(kDelay));
  const absl::Time start = absl::Now();
  const auto result = client->Gemm(Request());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->attempts, 3);
  EXPECT_GE(absl::Now() - start, 2 * kDelay);
}

TEST_F(ClientTest, AFullQueueEndsTheCallIfThePolicySaysSo) {
  ClientOptions options = QuickOptions();
  options.retry.honour_retry_info = false;
  const auto client = ConnectTo(service_, options);
  service_.FailNext(1, FullQueue(absl::Milliseconds(1)));
  const absl::Status refused = client->Gemm(Request()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(refused.message(), "the queue is full");
  EXPECT_EQ(RetryDelay(refused), absl::Milliseconds(1));
  EXPECT_EQ(service_.calls(), 1);
}

TEST_F(ClientTest, DoesNotWaitForAFullQueuePastTheDeadline) {
  const auto client = ConnectTo(service_, QuickOptions());
  service_.FailNext(1, FullQueue(absl::Hours(1)));
  GemmRequest request = Request();
  request.deadline = absl::Now() + kFar;
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(service_.calls(), 1);
}

TEST_F(ClientTest, TypedSpansNameTheirTypes) {
  const auto client = ConnectTo(service_, QuickOptions());
  const std::vector<float> floats(kM * kColumns, 1.5f);
  const std::vector<Half> halves(kM * kColumns, Half(1.5f));
  const std::vector<BFloat16> bfloats(kM * kColumns, BFloat16(1.5f));
  GemmRequest request = Request();
  request.SetA(floats);
  EXPECT_EQ(client->Gemm(request)->ToFloats(), floats);
  EXPECT_EQ(service_.gemm_request().a_type(), v1::FLOAT_TYPE_FP32);
  request.SetA(halves);
  EXPECT_EQ(client->Gemm(request)->ToFloats(), floats);
  EXPECT_EQ(service_.gemm_request().a_type(), v1::FLOAT_TYPE_FP16);
  request.SetA(bfloats);
  EXPECT_EQ(client->Gemm(request)->ToFloats(), floats);
  EXPECT_EQ(service_.gemm_request().a_type(), v1::FLOAT_TYPE_BF16);
}

TEST_F(ClientTest, TheAnswerGoesIntoTheRequestsMemory) {
  const auto client = ConnectTo(service_, QuickOptions());
  std::vector<uint8_t> c(a_.size());
  GemmRequest request = Request();
  request.c = absl::MakeSpan(c);
  const auto result = client->Gemm(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(c, a_);
  EXPECT_TRUE(result->c.empty());
  EXPECT_EQ(result->bytes().data(), c.data());
  EXPECT_EQ(result->n, kColumns);
}

TEST_F(ClientTest, MemoryOfAnotherSizeThanTheAnswerIsRefused) {
  const auto client = ConnectTo(service_, QuickOptions());
  std::vector<uint8_t> c(a_.size() + 1, 7);
  GemmRequest request = Request();
  request.c = absl::MakeSpan(c);
  const absl::Status status = client->Gemm(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("GemmRequest::c"));
  EXPECT_EQ(c, std::vector<uint8_t>(a_.size() + 1, 7));
}

TEST_F(ClientTest, DoesNotPausePastTheDeadline) {
  ClientOptions options = QuickOptions();
  options.retry.initial_backoff = absl::Hours(1);
  options.retry.max_backoff = absl::Hours(1);
  const auto client = ConnectTo(service_, options);
  service_.FailNext(1, Unavailable());
  GemmRequest request = Request();
  request.deadline = absl::Now() + kFar;
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(service_.calls(), 1);
}

TEST_F(ClientTest, DeadlineEndsACallThatIsNotAnswered) {
  const auto client = ConnectTo(service_, QuickOptions());
  service_.CloseGate();
  GemmRequest request = Request();
  request.deadline = absl::Now() + absl::Milliseconds(50);
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ClientTest, CallbackRunsOnceOnAnotherThread) {
  const auto client = ConnectTo(service_, QuickOptions());
  std::promise<std::thread::id> ran;
  std::atomic<int> runs{0};
  client->GemmAsync(Request(), [&](absl::StatusOr<GemmResult> result) {
    EXPECT_TRUE(result.ok()) << result.status();
    ++runs;
    ran.set_value(std::this_thread::get_id());
  });
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
  EXPECT_EQ(runs, 1);
}

TEST_F(ClientTest, CallbackOfARefusedRequestRunsAfterTheCall) {
  const auto client = ConnectTo(service_, QuickOptions());
  GemmRequest request = Request();
  request.m = 0;
  std::promise<absl::Status> status;
  Mutex held;  // the callback would deadlock inside the call
  held.Lock();
  client->GemmAsync(request, [&](absl::StatusOr<GemmResult> result) {
    MutexLock lock(&held);
    status.set_value(result.status());
  });
  held.Unlock();
  EXPECT_EQ(status.get_future().get().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, CallbacksMayBeMoveOnly) {
  const auto client = ConnectTo(service_, QuickOptions());
  std::promise<int64_t> promise;
  std::future<int64_t> rows = promise.get_future();
  client->GemmAsync(Request(), [promise = std::move(promise)](
                                   absl::StatusOr<GemmResult> result) mutable {
    promise.set_value(result.ok() ? result->m : -1);
  });
  EXPECT_EQ(rows.get(), kM);
}

TEST_F(ClientTest, AHandleCancelsItsCallAlone) {
  const auto client = ConnectTo(service_, QuickOptions());
  service_.CloseGate();
  std::promise<absl::Status> cancelled;
  const GemmHandle handle =
      client->GemmAsync(Request(), [&](absl::StatusOr<GemmResult> result) {
        cancelled.set_value(result.status());
      });
  auto other = client->GemmFuture(Request());
  service_.AwaitAtGate(2);
  handle.Cancel();
  EXPECT_EQ(cancelled.get_future().get(),
            absl::CancelledError("the caller cancelled the call"));
  service_.OpenGate();
  EXPECT_TRUE(other.get().ok());
}

TEST_F(ClientTest, AHandleCancelsAPauseBeforeARetry) {
  ClientOptions options = QuickOptions();
  options.retry.initial_backoff = absl::Hours(1);
  options.retry.max_backoff = absl::Hours(1);
  const auto client = ConnectTo(service_, options);
  service_.FailNext(1, Unavailable());
  std::promise<absl::Status> cancelled;
  const GemmHandle handle =
      client->GemmAsync(Request(), [&](absl::StatusOr<GemmResult> result) {
        cancelled.set_value(result.status());
      });
  handle.Cancel();
  EXPECT_TRUE(absl::IsCancelled(cancelled.get_future().get()));
}

TEST_F(ClientTest, AHandleMayOutliveItsCallAndTheClient) {
  auto client = ConnectTo(service_, QuickOptions());
  std::promise<bool> ok;
  const GemmHandle handle = client->GemmAsync(
      Request(),
      [&](absl::StatusOr<GemmResult> result) { ok.set_value(result.ok()); });
  EXPECT_TRUE(ok.get_future().get());
  handle.Cancel();
  client.reset();
  handle.Cancel();
  GemmHandle().Cancel();
}

TEST_F(ClientTest, FuturesOfManyCallsInFlightAllComplete) {
  constexpr int kCalls = 50;
  ClientOptions options = QuickOptions();
  options.channels = 3;
  options.completion_threads = 2;
  const auto client = ConnectTo(service_, options);
  std::vector<std::future<absl::StatusOr<GemmResult>>> futures;
  for (int i = 0; i < kCalls; ++i) {
    futures.push_back(client->GemmFuture(Request()));
  }
  for (auto& future : futures) {
    const auto result = future.get();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->c, std::string(a_.begin(), a_.end()));
  }
}

TEST_F(ClientTest, OperandsMayGoOnceTheCallHasStarted) {
  const auto client = ConnectTo(service_, QuickOptions());
  service_.CloseGate();
  auto operand = std::make_unique<std::vector<uint8_t>>(a_);
  GemmRequest request = Request();
  request.a = *operand;
  auto future = client->GemmFuture(request);
  std::fill(operand->begin(), operand->end(), 0xff);
  operand.reset();
  service_.OpenGate();
  const auto result = future.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->c, std::string(a_.begin(), a_.end()));
}

TEST_F(ClientTest, ABorrowedOperandIsSentAndReleasedOnce) {
  auto client = ConnectTo(service_, QuickOptions());
  service_.FailNext(2, Unavailable());
  std::atomic<int> released{0};
  GemmRequest request = Request();
  request.a_released = [&released] { ++released; };
  const auto result = client->Gemm(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->attempts, 3);
  EXPECT_EQ(result->c, std::string(a_.begin(), a_.end()));
  client.reset();
  while (released == 0) std::this_thread::yield();  // gRPC's own threads
  EXPECT_EQ(released, 1);
}

TEST_F(ClientTest, ABorrowedOperandOfARefusedRequestIsReleased) {
  const auto client = ConnectTo(service_, QuickOptions());
  std::atomic<int> released{0};
  GemmRequest request = Request();
  request.m = 0;
  request.a_released = [&released] { ++released; };
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(released, 1);
}

TEST_F(ClientTest, BlockingCallInsideACallbackFails) {
  const auto client = ConnectTo(service_, QuickOptions());
  std::promise<absl::Status> status;
  client->GemmAsync(Request(), [&](absl::StatusOr<GemmResult>) {
    status.set_value(client->Gemm(Request()).status());
  });
  EXPECT_EQ(status.get_future().get().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ClientTest, CallbackMayStartTheNextCall) {
  const auto client = ConnectTo(service_, QuickOptions());
  std::promise<bool> second_ok;
  client->GemmAsync(Request(), [&](absl::StatusOr<GemmResult>) {
    client->GemmAsync(Request(), [&](absl::StatusOr<GemmResult> result) {
      second_ok.set_value(result.ok());
    });
  });
  EXPECT_TRUE(second_ok.get_future().get());
}

TEST_F(ClientTest, DestructionCancelsCallsInFlight) {
  constexpr int kCalls = 5;
  auto client = ConnectTo(service_, QuickOptions());
  service_.CloseGate();
  std::vector<std::future<absl::StatusOr<GemmResult>>> futures;
  for (int i = 0; i < kCalls; ++i) {
    futures.push_back(client->GemmFuture(Request()));
  }
  service_.AwaitAtGate(kCalls);
  client.reset();
  for (auto& future : futures) {
    ASSERT_EQ(future.wait_for(std::chrono::seconds(0)),
              std::future_status::ready);
    EXPECT_EQ(future.get().status().code(), absl::StatusCode::kCancelled);
  }
}

TEST_F(ClientTest, DestructionCancelsAPauseBeforeARetry) {
  ClientOptions options = QuickOptions();
  options.retry.initial_backoff = absl::Hours(1);
  options.retry.max_backoff = absl::Hours(1);
  auto client = ConnectTo(service_, options);
  service_.FailNext(1, Unavailable());
  auto future = client->GemmFuture(Request());
  client.reset();
  EXPECT_EQ(future.get().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ClientTest, ACallbackMayDestroyTheClient) {
  std::shared_ptr<Client> client = ConnectTo(service_, QuickOptions());
  Client* const raw = client.get();
  std::promise<void> destroyed;
  raw->GemmAsync(Request(), [&destroyed, client = std::move(client)](
                                absl::StatusOr<GemmResult>) mutable {
    client.reset();
    destroyed.set_value();
  });
  destroyed.get_future().get();
}

TEST_F(ClientTest, QueriesTranslateEveryField) {
  const auto client = ConnectTo(service_, QuickOptions());
  const auto layer = client->GetWeights("layer");
  ASSERT_TRUE(layer.ok()) << layer.status();
  EXPECT_THAT(layer->names, ElementsAre("layer"));
  EXPECT_EQ(layer->name_count, 1);
  EXPECT_EQ(layer->id, "id");
  EXPECT_EQ(layer->n, 7);
  EXPECT_EQ(layer->k, 32);
  EXPECT_EQ(layer->format, "kbit3");
  EXPECT_EQ(layer->resident_bytes, 11);
  EXPECT_EQ(layer->uploaded_bytes, 13);
  EXPECT_TRUE(layer->has_bias);
  EXPECT_EQ(layer->spec, "spec");
}

TEST_F(ClientTest, ListEndsAtAPageThatRepeats) {
  const auto client = ConnectTo(service_, QuickOptions());
  service_.set_repeats_pages(true);
  EXPECT_EQ(client->ListWeights().status().code(), absl::StatusCode::kInternal);
}

TEST_F(ClientTest, ListWalksPagesInTheServersOrder) {
  const auto client = ConnectTo(service_, QuickOptions());
  const auto layers = client->ListWeights();
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_EQ(layers->size(), 2u);
  EXPECT_EQ((*layers)[0].id, "first");
  EXPECT_EQ((*layers)[1].id, "second");
}

TEST_F(ClientTest, ServerInfoTranslates) {
  const auto client = ConnectTo(service_, QuickOptions());
  const auto server = client->GetServerInfo();
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(server->backend, "fake");
  EXPECT_EQ(server->max_n, 17);
  EXPECT_EQ(server->uptime, absl::Nanoseconds(19));
  EXPECT_EQ(server->process_cpu, absl::Nanoseconds(23));
  EXPECT_THAT(server->formats, ElementsAre("kbit4"));
  EXPECT_EQ(server->program_revision, 29);
  EXPECT_EQ(server->programs, 31);
}

TEST_F(ClientTest, UnloadNamesTheWeightsAndIsRetried) {
  const auto client = ConnectTo(service_, QuickOptions());
  service_.FailNext(1, Unavailable());
  const auto freed = client->UnloadWeights("layer");
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_TRUE(*freed);
  EXPECT_THAT(service_.unloaded(), ElementsAre("layer"));
  EXPECT_EQ(service_.unload_request().if_match(), "");
}

TEST_F(ClientTest, UnloadSendsTheIdThatItIsFor) {
  const auto client = ConnectTo(service_, QuickOptions());
  ASSERT_TRUE(
      client->UnloadWeights("layer", absl::InfiniteFuture(), "id").ok());
  EXPECT_EQ(service_.unload_request().if_match(), "id");
  EXPECT_FALSE(service_.unload_request().keep_on_disk());
}

TEST_F(ClientTest, AnUnloadToTheDiskSaysSo) {
  const auto client = ConnectTo(service_, QuickOptions());
  ASSERT_TRUE(
      client->UnloadWeightsToDisk("layer", absl::InfiniteFuture(), "id").ok());
  EXPECT_THAT(service_.unloaded(), ElementsAre("layer"));
  EXPECT_EQ(service_.unload_request().if_match(), "id");
  EXPECT_TRUE(service_.unload_request().keep_on_disk());
}

TEST_F(ClientTest, AListByPrefixAsksEachPageForIt) {
  const auto client = ConnectTo(service_, QuickOptions());
  const auto listed = client->ListWeightsWithPrefix("prefix/");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->size(), 2u);
  EXPECT_THAT(service_.listed_prefixes(), ElementsAre("prefix/", "prefix/"));
}

}  // namespace
}  // namespace qgemm
