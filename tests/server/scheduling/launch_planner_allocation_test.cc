// SPDX-License-Identifier: Apache-2.0
//
// Counts allocations of the whole binary while decisions repeat what was done
// before.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/scheduling/launch_planner.h"

namespace {

std::atomic<int64_t> g_allocations{0};

}  // namespace

void* operator new(size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace qgemm {
namespace {

constexpr int64_t kIdentities = 8;
constexpr int64_t kClients = 4;  // of each
constexpr int64_t kLayers = 12;

class Weights final : public ResidentWeights {
 public:
  Weights() : ResidentWeights(64, 64) {}
  int64_t resident_bytes() const override { return 0; }
};

class LaunchPlannerAllocationTest : public testing::Test {
 protected:
  LaunchPlannerAllocationTest() : planner_(Options()) {
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back(std::make_shared<Weights>());
    }
    for (int64_t i = 0; i < 2 * kIdentities * kClients; ++i) {
      auto request = std::make_unique<AdmittedRequest>();
      request->identity = absl::StrCat("uid ", i % kIdentities);
      request->client = absl::StrCat("client ", i / kIdentities % kClients);
      request->m = 1 + i % 60;
      request->priority = static_cast<Priority>(i % 3);
      requests_.push_back(std::move(request));
    }
  }

  static SchedulerOptions Options() {
    SchedulerOptions options;
    options.batching.max_requests = 64;
    options.max_client_queued_rows = 100'000;
    return options;
  }

  // Queues all requests, each on its next layer, and runs them.
  void Round() {
    for (std::unique_ptr<AdmittedRequest>& request : requests_) {
      request->weights = layers_[++count_ % kLayers];
      request->arrival = now_;
      request->deadline = now_ + absl::Seconds(1);
      QueueDemand demand;
      demand.identity = request->identity;
      demand.rows = request->m;
      ASSERT_TRUE(planner_.CheckRoom(demand).status.ok());
      planner_.Add(std::move(request));
    }
    requests_.clear();
    while (planner_.depth().requests > 0) {
      now_ += absl::Microseconds(50);
      PlannedLaunch launch = planner_.Next(now_, &dropped_);
      ++launches_;
      for (ScheduledRequest& scheduled : launch.batch.requests) {
        requests_.push_back(std::move(scheduled.request));
      }
      planner_.LaunchEnded(launch.kind, now_, std::nullopt);
    }
  }

  LaunchPlanner planner_;
  std::vector<std::shared_ptr<const ResidentWeights>> layers_;
  std::vector<std::unique_ptr<AdmittedRequest>> requests_;
  std::vector<DroppedRequest> dropped_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  int64_t count_ = 0;
  int64_t launches_ = 0;
};

TEST_F(LaunchPlannerAllocationTest, SteadyStateAllocatesTheBatchesAlone) {
  // Hash tables grow to the size at which they keep their memory.
  for (int i = 0; i < 1000; ++i) Round();
  launches_ = 0;
  const int64_t before = g_allocations;
  for (int i = 0; i < 200; ++i) Round();
  const int64_t allocations = g_allocations - before;
  RecordProperty("launches", std::to_string(launches_));
  EXPECT_GT(launches_, 200);
  EXPECT_NEAR(allocations, launches_, 0.001 * static_cast<double>(launches_));
}

}  // namespace
}  // namespace qgemm
