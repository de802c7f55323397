// SPDX-License-Identifier: Apache-2.0
//
// SIGTERM: what was accepted is answered or refused with UNAVAILABLE, and the
// process ends with 0 within the drain timeout.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::Key;
using ::testing::UnorderedElementsAre;

// Calls in a closed loop from many connections until the first that is not
// answered; counts the ends by code.
class Load {
 public:
  Load(const std::string& address, const v1::GemmRequest& request,
       int clients) {
    for (int i = 0; i < clients; ++i) {
      threads_.emplace_back(
          [this, address, request] { Run(address, request); });
    }
  }

  void WaitForAnswers(int count) {
    while (answers_ < count) std::this_thread::yield();
  }

  std::map<grpc::StatusCode, int> Join() {
    for (std::thread& thread : threads_) thread.join();
    MutexLock lock(&mutex_);
    return ends_;
  }

 private:
  void Run(const std::string& address, const v1::GemmRequest& request) {
    const Client client(address);
    while (true) {
      const auto answer = client.Gemm(request);
      if (answer.ok()) {
        ++answers_;
        continue;
      }
      MutexLock lock(&mutex_);
      ++ends_[answer.status.error_code()];
      return;
    }
  }

  std::atomic<int> answers_{0};
  Mutex mutex_;
  std::map<grpc::StatusCode, int> ends_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

class SigtermTest : public ::testing::TestWithParam<int> {};

TEST_P(SigtermTest, UnderLoadAnswersOrRefusesAndExitsWithZero) {
  constexpr int kClients = 16;
  RandomGenerator random(FreshSeed());
  ChildServer server({"--listen=127.0.0.1:0", "--drain_timeout=60s"});
  const std::string address = server.WaitForAddress();
  LoadLayer(Client(address), /*n=*/512, /*k=*/512, &random);
  Load load(address, MakeGemm("layer", 8, 512, &random), kClients);
  load.WaitForAnswers(4 * kClients);

  server.Signal(GetParam());

  EXPECT_EQ(server.Wait(), 0) << server.output();
  EXPECT_THAT(load.Join(),
              UnorderedElementsAre(Key(grpc::StatusCode::UNAVAILABLE)));
}

INSTANTIATE_TEST_SUITE_P(Signals, SigtermTest,
                         ::testing::Values(SIGTERM, SIGINT));

TEST(Sigterm, OfAnIdleServerExitsWithZero) {
  ChildServer server({"--listen=127.0.0.1:0"});
  server.WaitForAddress();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.output();
}

TEST(Sigterm, DuringAnUploadRefusesIt) {
  RandomGenerator random(FreshSeed());
  ChildServer server({"--listen=127.0.0.1:0", "--drain_timeout=600s"});
  const Client client(server.WaitForAddress());
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = 64;
  spec.k = 64;
  const auto messages = ToMessages(MakeRandomUpload(spec, &random), "layer");
  grpc::ClientContext context;
  v1::LoadWeightsResponse response;
  const auto writer = client.stub()->LoadWeights(&context, &response);
  writer->Write(messages[0]);
  while (client.Info().weights_bytes() == 0) std::this_thread::yield();

  server.Signal(SIGTERM);

  // The client sends nothing more; the server does not wait for it.
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server.Wait(), 0) << server.output();
}

TEST(Drain, AnswersWhatIsQueuedAndRefusesWhatComesLater) {
  RandomGenerator random(FreshSeed());
  HeldServer server;
  const Client client = server.NewClient();
  LoadLayer(client, 32, 64, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, 64, &random);
  server.backend().Hold();
  auto accepted =
      std::async(std::launch::async, [&] { return client.Gemm(request); });
  server.backend().WaitForHeld(1);
  std::thread drain(
      [&] { server.test_server().server().Drain(absl::InfiniteFuture()); });
  // Unless it comes before the drain and is accepted too, it is refused.
  grpc::Status late;
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(100));
    v1::GemmResponse response;
    late = client.stub()->Gemm(&context, request, &response);
  } while (late.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(late.error_code(), grpc::StatusCode::UNAVAILABLE);
  server.backend().ReleaseAll();
  drain.join();
  const auto answer = accepted.get();
  EXPECT_TRUE(answer.ok()) << answer.status.error_message();
}

TEST(Drain, RefusesWhatIsStillQueuedAtTheDeadline) {
  RandomGenerator random(FreshSeed());
  HeldServer server;
  const Client client = server.NewClient();
  LoadLayer(client, 32, 64, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, 64, &random);
  server.backend().Hold();
  std::vector<std::future<Answer<v1::GemmResponse>>> accepted;
  for (int i = 1; i <= 3; ++i) {  // two are in flight, one is queued
    accepted.push_back(
        std::async(std::launch::async, [&] { return client.Gemm(request); }));
    // Waiting together, they would share a launch.
    server.backend().WaitForHeld(std::min(i, 2));
  }
  std::thread drain([&] { server.test_server().server().Drain(absl::Now()); });
  std::map<grpc::StatusCode, int> ends;
  server.backend().ReleaseAll();
  drain.join();
  for (auto& future : accepted) ++ends[future.get().status.error_code()];
  for (const auto& [code, count] : ends) {
    EXPECT_TRUE(code == grpc::StatusCode::OK ||
                code == grpc::StatusCode::UNAVAILABLE)
        << count << " ended with " << code;
  }
}

TEST(Drain, ServesOnForTheDelayWhileHealthSaysNotServing) {
  ChildServer server({"--listen=127.0.0.1:0", "--drain_delay=1h"});
  const Client client(server.WaitForAddress());
  server.Signal(SIGTERM);
  server.WaitForOutput("health state=draining");
  EXPECT_EQ(client.Info().weights_bytes(), 0);
  EXPECT_EQ(CallRaw(client.channel(), "/grpc.health.v1.Health/Check", "").bytes,
            std::string("\x08\x02"));  // NOT_SERVING
  server.Signal(SIGTERM);              // ends the delay
  EXPECT_EQ(server.Wait(), 0);
}

}  // namespace
}  // namespace qgemm
