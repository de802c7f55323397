// SPDX-License-Identifier: Apache-2.0
//
// A fault on the device takes the process's context with it: the backend
// says so, in one clear status, then and at every later call. The fault is
// provoked in a child process, this binary started anew.

#include <cstdlib>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "tests/kernels/cuda/backend_test.h"
#include "tests/kernels/cuda/trap.h"

namespace qgemm::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// True if the status says what has happened and what to do.
bool IsClear(const absl::Status& status) {
  std::cerr << status << "\n";
  return absl::IsUnavailable(status) &&
         absl::StrContains(status.message(), "context is lost") &&
         absl::StrContains(status.message(), "process must be restarted");
}

// Ends the process, with 0 if every status is as it should be. Not by exit:
// there is no device to take down in order.
[[noreturn]] void FaultAndReport() {
  RandomGenerator random(1);
  const std::unique_ptr<Backend> backend = NewBackend();
  const auto weights =
      LoadWhole(backend.get(),
                RandomWeights(WeightsRecipeNamed("kbit4"), 100, 256, &random));
  RepeatedBatch batch(backend.get(), weights, 3, &random);
  RepeatedBatch later(backend.get(), weights, 3, &random);
  CHECK_OK(batch.Run(10));
  CHECK_EQ(Trap(), cudaSuccess);  // the launch; the fault comes later
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = batch.Run(1);
  bool clear = IsClear(status);
  clear = IsClear(later.Run(1)) && clear;
  clear = IsClear(backend->NewBuilder().status()) && clear;
  clear = IsClear(backend->failure()) && clear;
  std::_Exit(clear ? 0 : 1);
}

// Ends the process, with 0, once the backend knows of the fault by itself.
[[noreturn]] void FaultAndLookOn() {
  const std::unique_ptr<Backend> backend = NewBackend();
  CHECK_OK(backend->failure());
  CHECK_OK(backend->InjectFault(BackendFault::kLoseDevice));
  while (backend->failure().ok()) std::this_thread::yield();
  std::_Exit(IsClear(backend->failure()) ? 0 : 1);
}

class StickyErrorDeathTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    // The child starts anew: CUDA does not survive a fork.
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }
};

TEST_F(StickyErrorDeathTest, SurfacesAsOneClearStatus) {
  EXPECT_EXIT(FaultAndReport(), testing::ExitedWithCode(0),
              AllOf(HasSubstr("must be restarted"),
                    HasSubstr("takes no more batches after")));
}

TEST_F(StickyErrorDeathTest, IsNoticedWhileNothingIsComputed) {
  EXPECT_EXIT(FaultAndLookOn(), testing::ExitedWithCode(0),
              HasSubstr("takes no more batches after"));
}

}  // namespace
}  // namespace qgemm::cuda
