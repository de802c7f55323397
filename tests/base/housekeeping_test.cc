// SPDX-License-Identifier: Apache-2.0
//
// The moments at which a heap is trimmed, on a heap of numbers; and that the
// process's own heap is.

#include "base/housekeeping.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

class FakeHeap final : public ProcessHeap {
 public:
  absl::Duration ProcessorTime() override { return processor_time; }
  int64_t ResidentBytes() override { return used_bytes + free_resident_bytes; }
  int64_t FreeBytes() override {
    ++looks;
    return free_resident_bytes + free_gone_bytes;
  }
  void Trim() override {
    ++trims;
    free_gone_bytes += free_resident_bytes;
    free_resident_bytes = 0;
  }

  absl::Duration processor_time;
  int64_t used_bytes = 50 * kMib;
  int64_t free_resident_bytes = 0;
  int64_t free_gone_bytes = 0;
  int trims = 0;
  int looks = 0;
};

class HeapTrimmerTest : public ::testing::Test {
 protected:
  HeapTrimmerTest() { Tick(1, kNothing); }

  // `cores` are in use meanwhile.
  void Tick(int seconds, double cores) {
    for (int i = 0; i < seconds; ++i) {
      now_ += absl::Seconds(1);
      heap_.processor_time += absl::Seconds(1) * cores;
      trimmer_.Tick(now_);
    }
  }

  static constexpr double kNothing = 0.001;
  static constexpr double kBusy = 1.5;

  FakeHeap heap_;
  HeapTrimmer trimmer_{&heap_};
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
};

TEST_F(HeapTrimmerTest, TrimsAfterAFloodWhenTheProcessIsIdle) {
  heap_.free_resident_bytes = 1000 * kMib;
  Tick(5, kNothing);
  EXPECT_EQ(heap_.trims, 1);
  EXPECT_EQ(heap_.ResidentBytes(), 50 * kMib);
}

TEST_F(HeapTrimmerTest, TrimsAfterALargeFloodThoughOthersAreServed) {
  heap_.free_resident_bytes = 256 * kMib;
  Tick(5, kBusy);
  EXPECT_EQ(heap_.trims, 1);
}

TEST_F(HeapTrimmerTest, LeavesWhatIsInUse) {
  heap_.used_bytes += 10'000 * kMib;  // weights
  heap_.free_resident_bytes = 31 * kMib;
  Tick(120, kNothing);
  EXPECT_EQ(heap_.trims, 0);
}

TEST_F(HeapTrimmerTest, DoesNotTrimAgainWhatHasGone) {
  heap_.free_resident_bytes = 1000 * kMib;
  Tick(120, kNothing);
  EXPECT_EQ(heap_.trims, 1);
}

TEST_F(HeapTrimmerTest, LooksEveryFiveSecondsWhenIdle) {
  Tick(60, kNothing);
  EXPECT_EQ(heap_.looks, 12);
}

TEST_F(HeapTrimmerTest, ABusyProcessIsTrimmedEveryHalfMinute) {
  heap_.free_resident_bytes = 200 * kMib;
  Tick(29, kBusy);
  EXPECT_EQ(heap_.trims, 0);
  Tick(1, kBusy);
  EXPECT_EQ(heap_.trims, 1);
  heap_.free_resident_bytes = 150 * kMib;
  Tick(29, kBusy);
  EXPECT_EQ(heap_.trims, 1);
  Tick(1, kBusy);
  EXPECT_EQ(heap_.trims, 2);
}

// Memory that a trim amid a flood found in use becomes free, and the resident
// size stays: the free bytes tell.
TEST_F(HeapTrimmerTest, TrimsWhatAFloodFreesAfterATrim) {
  heap_.used_bytes += 2000 * kMib;
  heap_.free_resident_bytes = 100 * kMib;
  Tick(30, kBusy);
  EXPECT_EQ(heap_.trims, 1);
  heap_.used_bytes -= 2000 * kMib;
  heap_.free_resident_bytes = 2000 * kMib;
  Tick(5, kNothing);
  EXPECT_EQ(heap_.trims, 2);
  EXPECT_EQ(heap_.ResidentBytes(), 50 * kMib);
}

// The free bytes are as many as after the trim, and the resident size is less.
TEST_F(HeapTrimmerTest, TrimsOnceMoreWhenAFloodIsOver) {
  heap_.used_bytes += 2000 * kMib;
  heap_.free_resident_bytes = 100 * kMib;
  Tick(30, kBusy);
  EXPECT_EQ(heap_.trims, 1);
  heap_.used_bytes -= 2000 * kMib;
  heap_.free_resident_bytes = 100 * kMib;
  heap_.free_gone_bytes = 0;
  Tick(40, kNothing);
  EXPECT_EQ(heap_.trims, 2);
  EXPECT_EQ(heap_.ResidentBytes(), 50 * kMib);
  Tick(120, kNothing);
  EXPECT_EQ(heap_.trims, 2);
}

// The free bytes are as many as after the last trim, but resident again.
TEST_F(HeapTrimmerTest, TrimsASecondFloodOfTheSameSize) {
  heap_.free_resident_bytes = 1000 * kMib;
  Tick(5, kNothing);
  heap_.free_resident_bytes = 1000 * kMib;
  heap_.free_gone_bytes = 0;
  Tick(5, kNothing);
  EXPECT_EQ(heap_.trims, 2);
}

TEST(SystemHeapTest, ReadsThisProcess) {
  ProcessHeap& heap = SystemHeap();
  EXPECT_GT(heap.ResidentBytes(), kMib);
  EXPECT_LT(heap.ResidentBytes(), int64_t{1} << 45);
  EXPECT_GT(heap.ProcessorTime(), absl::ZeroDuration());
  EXPECT_GE(heap.FreeBytes(), 0);
  heap.Trim();
}

TEST(HousekeepingTest, EndsAtOnce) { const Housekeeping housekeeping; }

}  // namespace
}  // namespace qgemm
