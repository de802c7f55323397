// SPDX-License-Identifier: Apache-2.0
//
// A server process whose backend is lost or hangs: it ends with the code that
// says why, and its calls with UNAVAILABLE.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/backends/backends.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/failed_server.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kN = 32;
constexpr int64_t kK = 64;

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
