// SPDX-License-Identifier: Apache-2.0
//
// A backend that is lost or hangs: health says so, every call ends with
// UNAVAILABLE, and the process ends with the code that says why.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "kernels/backends/backends.h"
#include "qgemm/v1/debug.grpc.pb.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

namespace health = ::grpc::health::v1;
using ::testing::AllOf;
using ::testing::HasSubstr;
using HealthStatus = health::HealthCheckResponse::ServingStatus;

constexpr int64_t kN = 32;
constexpr int64_t kK = 64;
constexpr HealthStatus kServing = health::HealthCheckResponse::SERVING;
constexpr HealthStatus kNotServing = health::HealthCheckResponse::NOT_SERVING;

ServerOptions WithWatchdog() {
  ServerOptions options;
  options.launch_timeout = absl::Seconds(1);
  options.enable_faults = true;
  return options;
}

grpc::Status InjectFault(const Client& client, v1::Fault fault) {
  grpc::ClientContext context;
  v1::InjectFaultRequest request;
  request.set_fault(fault);
  v1::InjectFaultResponse response;
  return v1::QgemmDebug::NewStub(client.channel())
      ->InjectFault(&context, request, &response);
}

HealthStatus CheckHealth(const Client& client, const std::string& service) {
  grpc::ClientContext context;
  health::HealthCheckRequest request;
  request.set_service(service);
  health::HealthCheckResponse response;
  const grpc::Status status = health::Health::NewStub(client.channel())
                                  ->Check(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.status();
}

// Follows a service's health.
class HealthWatch {
 public:
  HealthWatch(const Client& client, const std::string& service)
      : stub_(health::Health::NewStub(client.channel())) {
    health::HealthCheckRequest request;
    request.set_service(service);
    reader_ = stub_->Watch(&context_, request);
  }
  ~HealthWatch() {
    context_.TryCancel();
    reader_->Finish();
  }

  HealthStatus Next() {
    health::HealthCheckResponse response;
    EXPECT_TRUE(reader_->Read(&response));
    return response.status();
  }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<health::Health::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<health::HealthCheckResponse>> reader_;
};

void ExpectUnavailable(const grpc::Status& status, const std::string& reason) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE)
      << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr(reason));
}

// Every kind of call, on a server that has failed.
void ExpectNoService(const Client& client, const v1::GemmRequest& gemm,
                     const std::string& reason) {
  ExpectUnavailable(client.Gemm(gemm).status, reason);
  ExpectUnavailable(client.Unload("layer").status, reason);
  ExpectUnavailable(client.Get("layer").status, reason);
  StreamClient stream(client);
  stream.Write(ToMessage(1, gemm));
  ExpectUnavailable(stream.Finish(), reason);
  RandomGenerator random(FreshSeed());
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = kN;
  spec.k = kK;
  ExpectUnavailable(
      client.Load(ToMessages(MakeRandomUpload(spec, &random), "other")).status,
      reason);
  for (const char* const ready : {"", "qgemm.v1.Qgemm", "readiness"}) {
    EXPECT_EQ(CheckHealth(client, ready), kNotServing) << ready;
  }
  EXPECT_EQ(CheckHealth(client, "liveness"), kNotServing);
}

TEST(Hang, EndsCallsInALaunchAndBehindItWithUnavailable) {
  constexpr int kCalls = 5;
  RandomGenerator random(FreshSeed());
  HeldServer server(WithWatchdog());
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  HealthWatch watch(client, "");
  EXPECT_EQ(watch.Next(), kServing);
  ASSERT_TRUE(InjectFault(client, v1::FAULT_HANG).ok());
  StreamClient stream(client);
  stream.Write(ToMessage(1, request));
  server.backend().WaitForHeld(1);

  std::vector<std::future<Answer<v1::GemmResponse>>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(
        std::async(std::launch::async, [&] { return client.Gemm(request); }));
  }

  EXPECT_EQ(watch.Next(), kNotServing);
  for (auto& call : calls) ExpectUnavailable(call.get().status, "");
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::UNAVAILABLE);
  ExpectUnavailable(stream.Finish(), "--launch_timeout");
  ExpectNoService(client, request, "--launch_timeout");
  EXPECT_TRUE(absl::IsUnavailable(server.test_server().server().failure()));
  // The device may still write what the launch reads and writes.
  EXPECT_GT(server.backend().leases(), 0);
  server.backend().ReleaseAll();
  server.backend().WaitForCompleted(server.backend().enqueued());
  server.test_server().server().Drain(absl::InfiniteFuture());
  EXPECT_EQ(server.backend().leases(), 0);
}

TEST(Hang, OfALaunchThatEndsInTimeIsNone) {
  RandomGenerator random(FreshSeed());
  ServerOptions options = WithWatchdog();
  options.launch_timeout = absl::Hours(1);
  HeldServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  server.backend().Hold();
  auto call = std::async(std::launch::async, [&] {
    return client.Gemm(MakeGemm("layer", 1, kK, &random));
  });
  server.backend().WaitForHeld(1);
  EXPECT_EQ(CheckHealth(client, ""), kServing);
  server.backend().ReleaseAll();
  EXPECT_TRUE(call.get().ok());
  EXPECT_TRUE(server.test_server().server().failure().ok());
}

TEST(LostDevice, EndsEveryCallWithUnavailableAndItsReason) {
  RandomGenerator random(FreshSeed());
  ServerOptions options = WithWatchdog();
  options.metrics_listen = "127.0.0.1:0";
  HeldServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  HealthWatch ready(client, "qgemm.v1.Qgemm");
  HealthWatch live(client, "liveness");
  EXPECT_EQ(ready.Next(), kServing);
  EXPECT_EQ(live.Next(), kServing);
  std::promise<void> ended;  // every call that was in progress
  server.test_server().server().NotifyOfFailure([&] { ended.set_value(); });
  server.backend().Hold();
  auto call =
      std::async(std::launch::async, [&] { return client.Gemm(request); });
  server.backend().WaitForHeld(1);

  ASSERT_TRUE(InjectFault(client, v1::FAULT_LOSE_DEVICE).ok());

  EXPECT_EQ(ready.Next(), kNotServing);
  EXPECT_EQ(live.Next(), kNotServing);
  ExpectUnavailable(call.get().status, "the device is lost");
  ended.get_future().wait();
  ExpectNoService(client, request, "the device is lost");
  EXPECT_EQ(ScrapeMetric(server.test_server().server().metrics_port(),
                         "qgemm_health{state=\"failed\"}"),
            1);
}

TEST(LostDevice, NotifiesOnce) {
  HeldServer server(WithWatchdog());
  Server& tested = server.test_server().server();
  std::promise<void> notified;
  tested.NotifyOfFailure([&] { notified.set_value(); });
  EXPECT_TRUE(tested.failure().ok());
  server.backend().InjectFault(BackendFault::kLoseDevice).IgnoreError();
  notified.get_future().get();
  EXPECT_TRUE(absl::IsUnavailable(tested.failure()));
  bool is_told_at_once = false;
  tested.NotifyOfFailure([&] { is_told_at_once = true; });
  EXPECT_TRUE(is_told_at_once);
}

TEST(Liveness, StaysWhileTheServerDrains) {
  RandomGenerator random(FreshSeed());
  HeldServer server;
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  HealthWatch ready(client, "readiness");
  EXPECT_EQ(ready.Next(), kServing);
  server.backend().Hold();
  auto call = std::async(std::launch::async, [&] {
    return client.Gemm(MakeGemm("layer", 1, kK, &random));
  });
  server.backend().WaitForHeld(1);
  std::thread drain(
      [&] { server.test_server().server().Drain(absl::InfiniteFuture()); });
  EXPECT_EQ(ready.Next(), kNotServing);
  EXPECT_EQ(CheckHealth(client, "liveness"), kServing);
  server.backend().ReleaseAll();
  drain.join();
  EXPECT_TRUE(call.get().ok());
}

TEST(HealthNames, OfAnyLengthAreNotRepeated) {
  TestServer server;
  const std::string name(1 << 15, 'x');
  std::string request = "\x0a\x80\x80\x02";  // service = 1, 2^15 bytes
  request += name;
  const RawAnswer answer = CallRaw(server.NewClient().channel(),
                                   "/grpc.health.v1.Health/Check", request);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_LT(answer.status.error_message().size(), 300);
  EXPECT_THAT(answer.status.error_message(),
              AllOf(HasSubstr("32768 bytes"), HasSubstr("liveness")));
}

TEST(Drain, EndsCallsOfALaunchThatHangs) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.launch_timeout = absl::ZeroDuration();  // never
  options.drain_timeout = absl::Milliseconds(8);
  HeldServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  server.backend().Hold();
  auto call = std::async(std::launch::async, [&] {
    return client.Gemm(MakeGemm("layer", 1, kK, &random));
  });
  server.backend().WaitForHeld(1);
  server.test_server().server().Drain(absl::InfinitePast());
  ExpectUnavailable(call.get().status, "the server stopped");
}

TEST(InjectFault, NeedsItsFlagAndAFault) {
  HeldServer without;
  const grpc::Status off = InjectFault(without.NewClient(), v1::FAULT_HANG);
  EXPECT_EQ(off.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(off.error_message(), HasSubstr("--enable_faults"));
  HeldServer server(WithWatchdog());
  for (const int fault : {0, 3}) {
    const grpc::Status refused =
        InjectFault(server.NewClient(), static_cast<v1::Fault>(fault));
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(refused.error_message(),
                HasSubstr(absl::StrCat("fault = ", fault)));
  }
}

// A server process of its own.
class FailingProcessTest : public ::testing::TestWithParam<BackendKind> {
 protected:
  void SetUp() override {
    BackendOptions options;
    options.kind = GetParam();
    const absl::Status usable = CreateBackend(options).status();
    if (absl::IsFailedPrecondition(usable)) GTEST_SKIP() << usable;
  }

  void Start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {
        "--listen=127.0.0.1:0", absl::StrCat("--backend=", Name(GetParam())),
        "--enable_faults",      "--launch_timeout=1s",
        "--drain_timeout=10s",
    };
    flags.insert(flags.end(), more.begin(), more.end());
    server_ = std::make_unique<ChildServer>(flags);
    client_ = std::make_unique<Client>(server_->WaitForAddress());
    LoadLayer(*client_, kN, kK, &random_);
    request_ = MakeGemm("layer", 1, kK, &random_);
    EXPECT_TRUE(client_->Gemm(request_).ok());
    watch_ = std::make_unique<HealthWatch>(*client_, "");
    EXPECT_EQ(watch_->Next(), kServing);
  }

  std::future<Answer<v1::GemmResponse>> StartGemm(int64_t rows = 1) {
    return std::async(std::launch::async, [this, rows] {
      RandomGenerator random(rows);
      return client_->Gemm(MakeGemm("layer", rows, kK, &random));
    });
  }

  // Prints how long the server took to tell and to end: figures, no promises.
  void ExpectNotServingAndExit() {
    const absl::Time start = absl::Now();
    EXPECT_EQ(watch_->Next(), kNotServing);
    const absl::Time told = absl::Now();
    constexpr int kExitFailed = 3;
    EXPECT_EQ(server_->Wait(), kExitFailed) << server_->output();
    std::cout << Name(GetParam()) << ": NOT_SERVING after " << told - start
              << ", exit " << absl::Now() - told << " later\n";
  }

  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<ChildServer> server_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<HealthWatch> watch_;
  v1::GemmRequest request_;
};

TEST_P(FailingProcessTest, EndsWithItsCodeWhenALaunchHangs) {
  Start();
  ASSERT_TRUE(InjectFault(*client_, v1::FAULT_HANG).ok());
  std::vector<std::future<Answer<v1::GemmResponse>>> calls;
  for (const int64_t rows : {1, 2, 300, 1, 64}) {
    calls.push_back(StartGemm(rows));
  }
  ExpectNotServingAndExit();
  for (auto& call : calls) ExpectUnavailable(call.get().status, "");
  EXPECT_THAT(server_->output(), HasSubstr("--launch_timeout"));
}

TEST_P(FailingProcessTest, EndsWithItsCodeWhenAnIdleDeviceIsLost) {
  Start();
  ASSERT_TRUE(InjectFault(*client_, v1::FAULT_LOSE_DEVICE).ok());
  ExpectNotServingAndExit();
  EXPECT_THAT(server_->output(), HasSubstr("takes no more batches after"));
}

TEST_P(FailingProcessTest, EndsCallsWhenTheDeviceIsLost) {
  Start();
  std::vector<std::future<grpc::Status>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::async(std::launch::async, [&, i] {
      RandomGenerator random(i);
      const v1::GemmRequest request =
          MakeGemm("layer", i % 2 == 0 ? 1 : 200, kK, &random);
      grpc::Status status;
      while (status.ok()) status = client_->Gemm(request).status;
      return status;
    }));
  }
  ASSERT_TRUE(InjectFault(*client_, v1::FAULT_LOSE_DEVICE).ok());
  ExpectNotServingAndExit();
  for (auto& client : clients) ExpectUnavailable(client.get(), "");
}

TEST_P(FailingProcessTest, StaysAndRefusesCallsIfToldTo) {
  Start({"--exit_on_gpu_failure=false"});
  ASSERT_TRUE(InjectFault(*client_, v1::FAULT_LOSE_DEVICE).ok());
  EXPECT_EQ(watch_->Next(), kNotServing);
  ExpectNoService(*client_, request_, "takes no more batches after");
  server_->Signal(SIGTERM);
  constexpr int kExitFailed = 3;
  EXPECT_EQ(server_->Wait(), kExitFailed) << server_->output();
}

TEST_P(FailingProcessTest, ADrainEndsALaunchThatHangs) {
  Start({"--launch_timeout=0", "--drain_timeout=2s"});
  ASSERT_TRUE(InjectFault(*client_, v1::FAULT_HANG).ok());
  auto call = StartGemm();
  server_->Signal(SIGTERM);
  ExpectUnavailable(call.get().status, "");
  // Weights on a GPU that hangs cannot be freed; the process ends without it.
  EXPECT_EQ(server_->Wait(), 0) << server_->output();
}

INSTANTIATE_TEST_SUITE_P(Backends, FailingProcessTest,
                         ::testing::Values(BackendKind::kCpu,
                                           BackendKind::kCuda),
                         [](const ::testing::TestParamInfo<BackendKind>& info) {
                           return std::string(Name(info.param));
                         });

}  // namespace
}  // namespace qgemm
