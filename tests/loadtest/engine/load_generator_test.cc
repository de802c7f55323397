// SPDX-License-Identifier: Apache-2.0
//
// The generator over transports that answer at once, late, or not as asked.
// due_requests_test tests the schedule; this file tests the threads.

#include "loadtest/engine/load_generator.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "loadtest/schedule/arrivals.h"

namespace {

std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_allocations{0};

}  // namespace

void* operator new(size_t bytes) {
  if (g_counting.load(std::memory_order_relaxed)) ++g_allocations;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace qgemm::loadtest {
namespace {

// Message number = sequence modulo 4; even ones are of class 0.
PickedRequest PickOneOfFour(int64_t, int64_t sequence) {
  PickedRequest picked;
  picked.message = static_cast<int>(sequence % 4);
  picked.row_class = picked.message % 2;
  picked.rows = 1 + 15 * picked.row_class;
  return picked;
}

// Ends each request at once with a status that depends on its message.
class ScriptedTransport final : public Transport, public RequestSink {
 public:
  ScriptedTransport(std::vector<absl::Status> by_message, int slots,
                    RequestSink* sink)
      : by_message_(std::move(by_message)),
        sink_(sink),
        messages_(slots),
        inner_(*NullTransports()(slots, this)) {}

  void Start(int slot, int message, absl::Duration timeout) override {
    messages_[slot] = message;
    inner_->Start(slot, message, timeout);
  }
  void Cancel(int) override {}
  void OnEnd(int slot, const EndedRequest&) override {
    EndedRequest end;
    end.status = by_message_[messages_[slot]];
    sink_->OnEnd(slot, end);
  }

 private:
  const std::vector<absl::Status> by_message_;
  RequestSink* const sink_;
  std::vector<int> messages_;  // by slot
  const std::unique_ptr<Transport> inner_;
};

OpenTransport Scripted(std::vector<absl::Status> by_message) {
  return [by_message](int slots, RequestSink* sink) -> OpenedTransport {
    return std::make_unique<ScriptedTransport>(by_message, slots, sink);
  };
}

class LoadGeneratorTest : public testing::Test {
 protected:
  static GeneratorOptions Options() {
    GeneratorOptions options;
    options.class_names = {"m=1", "m=16"};
    options.class_rows = {1, 16};
    options.warmup = absl::Milliseconds(20);
    options.duration = absl::Milliseconds(200);
    return options;
  }

  static GeneratorOptions Closed(int clients) {
    GeneratorOptions options = Options();
    for (int i = 0; i < clients; ++i) options.clients.push_back(i);
    return options;
  }

  static GeneratorOptions Open(double rate) {
    GeneratorOptions options = Options();
    ArrivalProcess process;
    process.kind = ArrivalKind::kConstant;
    options.arrivals.emplace(process, RateProfile::Constant(rate), 1);
    options.max_in_flight = 64;
    return options;
  }

  absl::StatusOr<RunResult> Run(const GeneratorOptions& options,
                                const LiveView& live = nullptr) {
    return GenerateLoad(options, {open_, PickOneOfFour, nullptr}, stop_, live);
  }

  OpenTransport open_ = NullTransports();
  std::atomic<bool> stop_{false};
};

TEST_F(LoadGeneratorTest, EveryArrivalIsSentAndAnsweredOnce) {
  GeneratorOptions options = Open(5000);
  options.senders = 3;
  const absl::StatusOr<RunResult> result = Run(options);
  ASSERT_TRUE(result.ok()) << result.status();
  // Constant arrivals: as many as the rate says, to the rounding at both ends.
  EXPECT_NEAR(static_cast<double>(result->due), 5000 * 0.2, 1);
  EXPECT_NEAR(static_cast<double>(result->warmup_answers), 5000 * 0.02, 1);
  EXPECT_EQ(result->answers, result->sent);
  EXPECT_EQ(result->lag_ns.count(), result->sent);
  EXPECT_EQ(result->latency_ns().count(), result->answers);
  EXPECT_TRUE(result->errors.empty());
}

// The last end meets the end of the time in every possible way.
TEST_F(LoadGeneratorTest, EveryEndIsCountedHoweverTheRunEnds) {
  for (int run = 0; run < 60; ++run) {
    GeneratorOptions options = run % 2 == 0 ? Closed(3) : Open(20000);
    options.senders = 2;
    options.warmup = absl::ZeroDuration();
    options.duration = absl::Microseconds(50 * (run % 20));
    const absl::StatusOr<RunResult> result = Run(options);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->answers, result->sent);
    ASSERT_EQ(result->latency_ns().count(), result->answers);
  }
}

TEST_F(LoadGeneratorTest, ClassesAreToldApart) {
  const absl::StatusOr<RunResult> result = Run(Closed(2));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->classes.size(), 2u);
  const int64_t small = result->classes[0].latency_ns.count();
  const int64_t large = result->classes[1].latency_ns.count();
  EXPECT_GT(small, 0);
  EXPECT_EQ(small + large, result->answers);
  EXPECT_EQ(result->rows, small + 16 * large);
  EXPECT_EQ(result->classes[1].m, 16);
}

TEST_F(LoadGeneratorTest, TheSeriesHoldsEveryAnswer) {
  int64_t shown = 0;
  const absl::StatusOr<RunResult> result =
      Run(Closed(4), [&](const SeriesPoint& point) { shown += point.answers; });
  ASSERT_TRUE(result.ok()) << result.status();
  int64_t answers = 0;
  for (const SeriesPoint& point : result->series) answers += point.answers;
  EXPECT_EQ(answers, result->answers + result->warmup_answers);
  EXPECT_LE(shown, answers);
  EXPECT_FALSE(result->blocks_ns.empty());
}

TEST_F(LoadGeneratorTest, StopEndsIt) {
  stop_ = true;
  GeneratorOptions options = Closed(2);
  options.duration = absl::Hours(1);
  const absl::StatusOr<RunResult> result = Run(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->interrupted);
  EXPECT_LT(result->due_time, absl::Hours(1));
}

TEST_F(LoadGeneratorTest, EndsAreCountedByWhatTheyAre) {
  open_ = Scripted({absl::OkStatus(), absl::DeadlineExceededError("late"),
                    absl::UnavailableError("gone"), absl::OkStatus()});
  GeneratorOptions options = Open(2000);
  options.deadline = absl::Seconds(1);
  const absl::StatusOr<RunResult> result = Run(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(static_cast<double>(result->expired), result->sent / 4.0, 1);
  ASSERT_EQ(result->errors.count(absl::StatusCode::kUnavailable), 1u);
  EXPECT_EQ(result->errors.at(absl::StatusCode::kUnavailable).first_message,
            "gone");
  EXPECT_EQ(result->errors.size(), 1u);
  // Errors count from the warm-up on, the others do not.
  const int64_t counted_errors =
      result->sent - result->answers - result->expired;
  EXPECT_NEAR(static_cast<double>(counted_errors), result->sent / 4.0, 1);
  EXPECT_GE(result->error_count(), counted_errors);
}

TEST_F(LoadGeneratorTest, ADeadlineThatNobodyAskedForIsAnError) {
  open_ = Scripted(
      std::vector<absl::Status>(4, absl::DeadlineExceededError("late")));
  const absl::StatusOr<RunResult> result = Run(Open(1000));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->expired, 0);
  EXPECT_EQ(result->answers, 0);
  EXPECT_GT(result->error_count(), 0);
}

// Holds every request until it is cancelled.
class SilentTransport final : public Transport {
 public:
  explicit SilentTransport(RequestSink* sink) : sink_(sink) {}
  void Start(int, int, absl::Duration) override {}
  void Cancel(int slot) override {
    // On a thread of its own, as the transport's contract says.
    enders_.emplace_back([this, slot] {
      EndedRequest end;
      end.status = absl::CancelledError();
      sink_->OnEnd(slot, end);
    });
  }
  ~SilentTransport() override {
    for (std::thread& ender : enders_) ender.join();
  }

 private:
  RequestSink* const sink_;
  std::vector<std::thread> enders_;
};

TEST_F(LoadGeneratorTest, ARequestWithoutAnAnswerIsGivenUp) {
  open_ = [](int, RequestSink* sink) -> OpenedTransport {
    return std::make_unique<SilentTransport>(sink);
  };
  GeneratorOptions options = Closed(1);
  options.warmup = absl::ZeroDuration();
  options.timeout = absl::Milliseconds(50);
  const absl::StatusOr<RunResult> result = Run(options);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto found = result->errors.find(absl::StatusCode::kDeadlineExceeded);
  ASSERT_NE(found, result->errors.end());
  EXPECT_GE(found->second.count, 1);
  EXPECT_EQ(found->second.first_message, "no answer within --timeout=50ms");
  EXPECT_EQ(result->errors.size(), 1u);
}

// Between the first and the second look at the senders a request allocates
// nothing, neither in the generator's threads nor in the watching one.
TEST_F(LoadGeneratorTest, ARequestAllocatesNothing) {
  int looks = 0;
  int64_t answers = 0;
  GeneratorOptions options = Closed(8);
  options.senders = 2;
  options.duration = absl::Milliseconds(400);
  const absl::StatusOr<RunResult> result =
      Run(options, [&](const SeriesPoint& point) {
        if (g_counting.exchange(false)) answers += point.answers;
        // The series itself grows now and then; not while it counts.
        g_counting = ++looks % 2 == 1;
      });
  g_counting = false;
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(answers, 1000);
  EXPECT_LT(g_allocations.load(), answers / 100);
}

}  // namespace
}  // namespace qgemm::loadtest
