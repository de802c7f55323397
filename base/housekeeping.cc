// SPDX-License-Identifier: Apache-2.0

#include "base/housekeeping.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/process_cpu.h"

namespace qgemm {
namespace {

constexpr int64_t kWorthwhileBytes = int64_t{32} << 20;
constexpr absl::Duration kIdleInterval = absl::Seconds(5);
constexpr absl::Duration kBusyInterval = absl::Seconds(30);
// So much lies free after a flood only; it goes back though others are served.
constexpr int64_t kFloodBytes = int64_t{256} << 20;
constexpr double kIdleCores = 0.05;
constexpr absl::Duration kPeriod = absl::Seconds(1);

class GlibcHeap final : public ProcessHeap {
 public:
  absl::Duration ProcessorTime() override { return ProcessCpu(); }

  // The second number of statm, in pages; 0 if it cannot be read.
  int64_t ResidentBytes() override {
    std::ifstream file("/proc/self/statm");
    int64_t total_pages = 0;
    int64_t resident_pages = 0;
    file >> total_pages >> resident_pages;
    return resident_pages * sysconf(_SC_PAGE_SIZE);
  }

  int64_t FreeBytes() override {
    return static_cast<int64_t>(mallinfo2().fordblks);
  }

  void Trim() override { malloc_trim(0); }
};

}  // namespace

ProcessHeap& SystemHeap() {
  static GlibcHeap heap;
  return heap;
}

void HeapTrimmer::Tick(absl::Time now) {
  const bool is_idle = IsIdle(now);
  was_busy_ = was_busy_ || !is_idle;
  // The first interval begins with the first tick.
  if (last_look_ == absl::InfinitePast()) {
    last_look_ = now;
    base_resident_bytes_ = heap_->ResidentBytes();
  }
  if (now - last_look_ < kIdleInterval) return;
  const int64_t free_bytes = heap_->FreeBytes();
  if (!is_idle && now - last_look_ < kBusyInterval &&
      free_bytes - base_free_bytes_ < kFloodBytes) {
    return;
  }
  last_look_ = now;
  const int64_t resident_bytes = heap_->ResidentBytes();
  const bool has_grown = HasGrown(resident_bytes, free_bytes);
  const bool has_worked = was_busy_ && now - last_trim_ >= kBusyInterval;
  if (has_worked && is_idle) was_busy_ = false;
  if (free_bytes < kWorthwhileBytes) return;
  if (!has_grown && !has_worked) return;
  last_trim_ = now;
  Trim(resident_bytes);
}

bool HeapTrimmer::IsIdle(absl::Time now) {
  const absl::Duration processor_time = heap_->ProcessorTime();
  const absl::Duration used =
      processor_time - std::exchange(last_processor_time_, processor_time);
  return used <= (now - std::exchange(last_tick_, now)) * kIdleCores;
}

bool HeapTrimmer::HasGrown(int64_t resident_bytes, int64_t free_bytes) {
  base_resident_bytes_ = std::min(base_resident_bytes_, resident_bytes);
  base_free_bytes_ = std::min(base_free_bytes_, free_bytes);
  return resident_bytes - base_resident_bytes_ >= kWorthwhileBytes ||
         free_bytes - base_free_bytes_ >= kWorthwhileBytes;
}

void HeapTrimmer::Trim(int64_t resident_bytes) {
  const SteadyClock clock;
  const absl::Time start = clock.Now();
  heap_->Trim();
  const absl::Duration took = clock.Now() - start;
  base_resident_bytes_ = heap_->ResidentBytes();
  base_free_bytes_ = heap_->FreeBytes();
  EVENT(INFO, "memory_trimmed")
      .With("resident_bytes_before", resident_bytes)
      .With("resident_bytes_after", base_resident_bytes_)
      .With("took", took);
}

Housekeeping::Housekeeping() : thread_([this] { Run(); }) {}

Housekeeping::~Housekeeping() {
  {
    MutexLock lock(&mutex_);
    ended_ = true;
  }
  end_.SignalAll();
  thread_.join();
}

void Housekeeping::Run() {
  const SteadyClock clock;
  HeapTrimmer trimmer(&SystemHeap());
  while (!EndedMeanwhile()) {
    trimmer.Tick(clock.Now());
    LogSuppressedLines();
  }
}

bool Housekeeping::EndedMeanwhile() {
  MutexLock lock(&mutex_);
  // A wake-up for no reason makes a look come early, which does no harm.
  if (!ended_) end_.WaitFor(&mutex_, kPeriod);
  return ended_;
}

}  // namespace qgemm
