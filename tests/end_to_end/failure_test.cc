// SPDX-License-Identifier: Apache-2.0
//
// A backend that is lost or hangs, in the test's process: health says so, and
// every call ends with UNAVAILABLE.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/end_to_end/failed_server.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kN = 32;
constexpr int64_t kK = 64;

ServerOptions WithWatchdog() {
  ServerOptions options;
  options.launch_timeout = absl::Seconds(1);
  options.enable_faults = true;
  return options;
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

}  // namespace
}  // namespace qgemm
