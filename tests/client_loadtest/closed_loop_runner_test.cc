// SPDX-License-Identifier: Apache-2.0
//
// RunClosedLoop on a clock that only the fake target moves.

#include "client/loadtest/closed_loop_runner.h"

#include <atomic>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

// Answers after `latency` of the fake clock; fails every `fail_every`th call.
class FakeTarget final : public LoadTarget {
 public:
  FakeTarget(FakeClock* clock, absl::Duration latency)
      : clock_(clock), latency_(latency) {}

  absl::StatusOr<LoadAnswer> Call(int64_t input) override {
    clock_->Advance(latency_);
    const int64_t call = ++calls_;
    if (stop_after_ > 0 && call == stop_after_) stop_ = true;
    if (fail_every_ > 0 && call % fail_every_ == 0) {
      return absl::ResourceExhaustedError("queue full");
    }
    LoadAnswer answer;
    answer.c = std::to_string(input);
    answer.timings.kernel = absl::Microseconds(7);
    answer.timings.launch_rows = 3;
    return answer;
  }

  void FailEvery(int64_t calls) { fail_every_ = calls; }
  void StopAfter(int64_t calls) { stop_after_ = calls; }
  int64_t calls() const { return calls_; }
  const std::atomic<bool>& stop() const { return stop_; }

 private:
  FakeClock* const clock_;
  const absl::Duration latency_;
  int64_t fail_every_ = 0;
  int64_t stop_after_ = 0;
  std::atomic<int64_t> calls_{0};
  std::atomic<bool> stop_{false};
};

class RecordingObserver final : public AnswerObserver {
 public:
  void OnAnswer(int64_t input, int64_t sequence, absl::string_view c) override {
    MutexLock lock(&mutex_);
    EXPECT_EQ(c, std::to_string(input));
    inputs_.insert(input);
    sequences_.push_back(sequence);
  }
  std::set<int64_t> inputs() const {
    MutexLock lock(&mutex_);
    return inputs_;
  }
  std::vector<int64_t> sequences() const {
    MutexLock lock(&mutex_);
    return sequences_;
  }

 private:
  mutable Mutex mutex_;
  std::set<int64_t> inputs_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> sequences_ ABSL_GUARDED_BY(mutex_);
};

ClosedLoopOptions Options(int concurrency) {
  ClosedLoopOptions options;
  options.concurrency = concurrency;
  options.inputs = 3;
  options.warmup = absl::Milliseconds(10);
  options.duration = absl::Milliseconds(100);
  options.pause_after_error = absl::ZeroDuration();
  return options;
}

TEST(RunClosedLoop, MeasuresRequestsThatStartAfterTheWarmup) {
  FakeClock clock;
  FakeTarget target(&clock, absl::Milliseconds(2));
  const LoopResult result =
      RunClosedLoop(Options(1), &target, nullptr, clock, target.stop());
  EXPECT_EQ(result.warmup_answers, 5);    // at 0, 2, ... 8 ms
  EXPECT_EQ(result.latency.count(), 50);  // at 10, 12, ... 108 ms
  EXPECT_EQ(result.measured, absl::Milliseconds(100));
  EXPECT_EQ(result.latency.min(), absl::Milliseconds(2));
  EXPECT_EQ(result.latency.max(), absl::Milliseconds(2));
  EXPECT_FALSE(result.interrupted);
}

TEST(RunClosedLoop, MeasuredTimeIncludesARequestThatOutlastsTheEnd) {
  FakeClock clock;
  FakeTarget target(&clock, absl::Milliseconds(70));
  const LoopResult result =
      RunClosedLoop(Options(1), &target, nullptr, clock, target.stop());
  EXPECT_EQ(result.latency.count(), 1);  // at 70 ms; the end is at 110 ms
  EXPECT_EQ(result.measured, absl::Milliseconds(130));
}

TEST(RunClosedLoop, EveryWorkersAnswersAreCounted) {
  FakeClock clock;
  FakeTarget target(&clock, absl::Microseconds(100));
  RecordingObserver observer;
  const LoopResult result =
      RunClosedLoop(Options(8), &target, &observer, clock, target.stop());
  EXPECT_EQ(result.latency.count() + result.warmup_answers, target.calls());
  EXPECT_EQ(observer.sequences().size(), static_cast<size_t>(target.calls()));
}

TEST(RunClosedLoop, TakesInputsInTurn) {
  FakeClock clock;
  FakeTarget target(&clock, absl::Milliseconds(1));
  RecordingObserver observer;
  RunClosedLoop(Options(2), &target, &observer, clock, target.stop());
  EXPECT_EQ(observer.inputs(), (std::set<int64_t>{0, 1, 2}));
}

TEST(RunClosedLoop, CountsErrorsByCodeAndKeepsThemOutOfTheLatency) {
  FakeClock clock;
  FakeTarget target(&clock, absl::Milliseconds(1));
  target.FailEvery(4);
  const LoopResult result =
      RunClosedLoop(Options(1), &target, nullptr, clock, target.stop());
  ASSERT_EQ(result.errors.size(), 1u);
  const auto& [code, tally] = *result.errors.begin();
  EXPECT_EQ(code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(tally.count, target.calls() / 4);
  EXPECT_EQ(tally.first_message, "queue full");
  EXPECT_EQ(result.latency.count() + result.warmup_answers,
            target.calls() - tally.count);
}

TEST(RunClosedLoop, SumsTheServersTimings) {
  FakeClock clock;
  FakeTarget target(&clock, absl::Milliseconds(2));
  const LoopResult result =
      RunClosedLoop(Options(1), &target, nullptr, clock, target.stop());
  EXPECT_EQ(result.server.kernel,
            result.latency.count() * absl::Microseconds(7));
  EXPECT_EQ(result.server.launch_rows, 3.0 * result.latency.count());
}

TEST(RunClosedLoop, StopEndsItWithWhatWasMeasured) {
  FakeClock clock;
  FakeTarget target(&clock, absl::Milliseconds(2));
  target.StopAfter(9);  // starts at 16 ms
  const LoopResult result =
      RunClosedLoop(Options(1), &target, nullptr, clock, target.stop());
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(target.calls(), 9);
  EXPECT_EQ(result.latency.count(), 4);  // at 10, 12, 14, 16 ms
  EXPECT_EQ(result.measured, absl::Milliseconds(8));
}

}  // namespace
}  // namespace qgemm
