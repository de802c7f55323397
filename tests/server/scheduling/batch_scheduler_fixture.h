// SPDX-License-Identifier: Apache-2.0
//
// Scheduler on a fake clock whose sink holds its batches. Requests carry their
// number as their count of rows, so that a sink's record identifies them. Tests
// that expect no launch wait until the clock has been read often enough.

#ifndef QGEMM_TESTS_SERVER_SCHEDULING_BATCH_SCHEDULER_FIXTURE_H_
#define QGEMM_TESTS_SERVER_SCHEDULING_BATCH_SCHEDULER_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "server/scheduling/batch_scheduler.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/scheduling/held_sink.h"
#include "tests/server/scheduling/outcomes.h"
#include "tests/support/fake_clock.h"

namespace qgemm {

class NoWeights final : public ResidentWeights {
 public:
  NoWeights() : ResidentWeights(1, 1) {}
  int64_t resident_bytes() const override { return 0; }
};

inline StagingLease Bytes(int64_t size_bytes) {
  return StagingLease(nullptr, size_bytes, nullptr);
}

// Fake clock that counts its readings.
class WatchedClock final : public Clock {
 public:
  absl::Time Now() const override {
    ++looks_;
    return clock_.Now();
  }
  void Advance(absl::Duration duration) { clock_.Advance(duration); }
  int64_t looks() const { return looks_; }

 private:
  FakeClock clock_;
  mutable std::atomic<int64_t> looks_{0};
};

class BatchSchedulerTest : public testing::Test {
 protected:
  ~BatchSchedulerTest() override { StopAfterFinishingAll(); }

  void Start(const SchedulerOptions& options) {
    scheduler_ =
        std::make_unique<BatchScheduler>(options, &sink_, &clock_, &metrics_);
  }

  // Options with at most one launch in flight.
  static SchedulerOptions OneLaunch() {
    SchedulerOptions options;
    options.max_launches_in_flight = 1;
    return options;
  }

  std::unique_ptr<AdmittedRequest> Request(int64_t number) {
    auto request = std::make_unique<AdmittedRequest>();
    request->weights = weights_;
    request->m = number;
    request->arrival = clock_.Now();
    request->done = outcomes_.Recorder(number);
    return request;
  }

  // Returns a request that runs in chunks.
  std::unique_ptr<AdmittedRequest> LargeRequest(int64_t rows) {
    auto request = Request(rows);
    request->weights = std::make_shared<NoWeights>();
    return request;
  }

  void Enqueue(int64_t number) { scheduler_->Enqueue(Request(number)); }
  void EnqueueFrom(const std::string& identity, int64_t number) {
    auto request = Request(number);
    request->identity = identity;
    scheduler_->Enqueue(std::move(request));
  }

  // Occupies the only launch with request `number`.
  void Occupy(int64_t number) {
    Enqueue(number);
    sink_.WaitForBatches(1);
  }

  void StopAfterFinishingAll() {
    if (scheduler_ == nullptr) return;
    std::atomic<bool> stopped{false};
    std::thread finisher([&] {
      while (!stopped) {
        if (!sink_.Finish(0)) std::this_thread::yield();
      }
    });
    scheduler_.reset();
    stopped = true;
    finisher.join();
  }

  double Dropped(const std::string& reason, const std::string& stage) {
    return MetricValue(metrics_, "qgemm_requests_dropped_total{reason=\"" +
                                     reason + "\",stage=\"" + stage + "\"}")
        .value_or(-1);
  }

  // Returns when somebody has looked at the clock `count` times, or a launch
  // has started.
  void AwaitLooks(int64_t count) {
    const int64_t enough = clock_.looks() + count;
    while (clock_.looks() < enough && sink_.sizes().empty()) {
      std::this_thread::yield();
    }
  }

  const std::shared_ptr<const ResidentWeights> weights_ =
      std::make_shared<NoWeights>();
  WatchedClock clock_;
  ServerMetrics metrics_;
  Outcomes outcomes_;
  HeldSink sink_;
  std::unique_ptr<BatchScheduler> scheduler_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_SCHEDULING_BATCH_SCHEDULER_FIXTURE_H_
