// SPDX-License-Identifier: Apache-2.0
//
// Invariants of every schedule: many small random ones, with
// several enqueuing threads, launches that end in any order on other threads,
// and a drain at any moment.

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/scheduling/batch_scheduler.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/scheduling/held_sink.h"
#include "tests/server/scheduling/outcomes.h"
#include "tests/support/fake_clock.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

constexpr int kSchedules = 60;
constexpr int kProducers = 3;
constexpr int64_t kRequestsOfAProducer = 30;

class NoWeights final : public ResidentWeights {
 public:
  NoWeights() : ResidentWeights(1, 1) {}
  int64_t resident_bytes() const override { return 0; }
};

// Requests are identified by their rows; those of higher numbers run in chunks.
int64_t RowsOf(int64_t number) { return 1 + number; }
int64_t NumberOf(int64_t rows) { return rows - 1; }

enum class Kind { kPlain, kExpired, kCancelled };

struct Plan {
  SchedulerOptions options;
  std::vector<Kind> kinds;  // by number
  int64_t drain_after = 0;  // requests that ended
};

Plan RandomPlan(RandomGenerator* random) {
  Plan plan;
  plan.options.max_queued_requests = RandomInt(1, 20, random);
  plan.options.max_launches_in_flight =
      static_cast<int>(RandomInt(1, 4, random));
  plan.options.batching.max_requests = RandomInt(1, 5, random);
  plan.options.batching.max_rows = RandomInt(1, 100, random);
  plan.options.batching.chunks.max_rows = kChunkRowAlignment;
  for (int i = 0; i < kProducers * kRequestsOfAProducer; ++i) {
    const int64_t draw = RandomInt(0, 9, random);
    plan.kinds.push_back(draw == 0   ? Kind::kExpired
                         : draw == 1 ? Kind::kCancelled
                                     : Kind::kPlain);
  }
  plan.drain_after =
      RandomInt(0, static_cast<int64_t>(plan.kinds.size()), random);
  return plan;
}

// One scheduler's life under a plan.
class Schedule {
 public:
  Schedule(const Plan& plan, uint64_t seed) : plan_(plan), seed_(seed) {}

  void Run() {
    BatchScheduler scheduler(plan_.options, &sink_, &clock_, &metrics_);
    std::atomic<bool> stopped{false};
    std::vector<std::thread> finishers;
    for (uint64_t t = 0; t < 2; ++t) {
      finishers.emplace_back([&, t] { FinishAtRandom(seed_ + t, &stopped); });
    }
    std::vector<std::thread> producers;
    for (int64_t t = 0; t < kProducers; ++t) {
      producers.emplace_back([&, t] { Produce(t, &scheduler); });
    }
    outcomes_.WaitFor(plan_.drain_after);
    scheduler.Drain(seed_ % 2 == 0 ? absl::InfiniteFuture() : clock_.Now());
    for (std::thread& producer : producers) producer.join();
    scheduler.Drain(absl::InfiniteFuture());
    stopped = true;
    for (std::thread& finisher : finishers) finisher.join();
  }

  void Check() {
    for (int64_t number = 0; number < plan_.kinds.size(); ++number) {
      CheckRequest(number);
    }
    for (const int64_t rows : sink_.rows()) {
      const int64_t number = NumberOf(rows);
      EXPECT_EQ(plan_.kinds[number], Kind::kPlain) << "request " << number;
    }
    for (const int64_t size : sink_.sizes()) {
      EXPECT_LE(size, plan_.options.batching.max_requests);
    }
    EXPECT_LE(sink_.most_in_flight(), plan_.options.max_launches_in_flight);
    EXPECT_EQ(MetricValue(metrics_, "qgemm_queue_requests"), 0.0);
    EXPECT_EQ(MetricValue(metrics_, "qgemm_queue_bytes"), 0.0);
    EXPECT_EQ(MetricValue(metrics_, "qgemm_queue_rows"), 0.0);
    EXPECT_EQ(MetricValue(metrics_, "qgemm_launches_in_flight"), 0.0);
  }

 private:
  void Produce(int64_t producer, BatchScheduler* scheduler) {
    for (int64_t i = 0; i < kRequestsOfAProducer; ++i) {
      const int64_t number = producer * kRequestsOfAProducer + i;
      auto request = std::make_unique<AdmittedRequest>();
      request->weights = weights_;
      request->m = RowsOf(number);
      request->a = StagingLease(nullptr, 1, nullptr);
      request->arrival = clock_.Now();
      if (plan_.kinds[number] == Kind::kExpired) {
        request->deadline = clock_.Now();
      }
      request->cancelled = std::make_shared<std::atomic<bool>>(
          plan_.kinds[number] == Kind::kCancelled);
      request->done = outcomes_.Recorder(number);
      scheduler->Enqueue(std::move(request));
    }
  }

  void FinishAtRandom(uint64_t seed, const std::atomic<bool>* stopped) {
    RandomGenerator random(seed);
    while (!*stopped) {
      if (!sink_.Finish(random())) std::this_thread::yield();
    }
  }

  void CheckRequest(int64_t number) {
    SCOPED_TRACE(number);
    const std::vector<Outcome> ends = outcomes_.Of(number);
    ASSERT_EQ(ends.size(), 1u);
    const absl::StatusCode code = ends.front().status.code();
    if (code == absl::StatusCode::kResourceExhausted ||
        code == absl::StatusCode::kUnavailable) {
      return;  // refused, whatever it was
    }
    switch (plan_.kinds[number]) {
      case Kind::kPlain:
        EXPECT_EQ(code, absl::StatusCode::kOk);
        break;
      case Kind::kExpired:
        EXPECT_EQ(code, absl::StatusCode::kDeadlineExceeded);
        break;
      case Kind::kCancelled:
        EXPECT_EQ(code, absl::StatusCode::kCancelled);
        break;
    }
  }

  const Plan plan_;
  const uint64_t seed_;
  const std::shared_ptr<const ResidentWeights> weights_ =
      std::make_shared<NoWeights>();
  FakeClock clock_;
  ServerMetrics metrics_;
  Outcomes outcomes_;
  HeldSink sink_;
};

TEST(BatchSchedulerRandomTest, EveryRequestEndsOnceWithinTheBounds) {
  RandomGenerator random(FreshSeed());
  for (int i = 0; i < kSchedules && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "schedule " << i);
    const Plan plan = RandomPlan(&random);
    Schedule schedule(plan, random());
    schedule.Run();
    schedule.Check();
  }
}

}  // namespace
}  // namespace qgemm
