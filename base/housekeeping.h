// SPDX-License-Identifier: Apache-2.0
//
// Work of a server process that is due about every second: giving memory back
// that malloc keeps after a flood of requests (glibc returns what lies at the
// end of its heaps and no more), and counting the log lines that a flood's
// limit has suppressed.

#ifndef QGEMM_BASE_HOUSEKEEPING_H_
#define QGEMM_BASE_HOUSEKEEPING_H_

#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace qgemm {

// The process and its heap, as a dependency.
class ProcessHeap {
 public:
  virtual ~ProcessHeap() = default;
  virtual absl::Duration ProcessorTime() = 0;
  virtual int64_t ResidentBytes() = 0;
  // Bytes that malloc holds and nobody uses, resident or not.
  virtual int64_t FreeBytes() = 0;
  // Returns free pages to the system. Holds the lock of one arena at a time.
  virtual void Trim() = 0;
};

// This process's. Thread-safe.
ProcessHeap& SystemHeap();

// Trims when it is worth it: at least 32 MiB lie free, and the free bytes or
// the resident size have grown by as much since the last time, or the process
// has been busy since, half a minute after the last time or later: what a trim
// amid a flood found in use is seen in neither. It looks every 5 s while the
// process is idle (a twentieth of a core for the time between two ticks), and
// every 30 s while it is busy, because requests may wait for malloc meanwhile.
// Not thread-safe.
class HeapTrimmer {
 public:
  // The heap must outlive the trimmer.
  explicit HeapTrimmer(ProcessHeap* heap) : heap_(heap) {}

  // Trims if it is time. For about each second; `now` is of a steady clock.
  void Tick(absl::Time now);

 private:
  bool IsIdle(absl::Time now);
  bool HasGrown(int64_t resident_bytes, int64_t free_bytes);
  void Trim(int64_t resident_bytes);

  ProcessHeap* const heap_;
  absl::Time last_tick_ = absl::InfinitePast();
  absl::Time last_look_ = absl::InfinitePast();
  absl::Time last_trim_ = absl::InfinitePast();
  absl::Duration last_processor_time_;
  bool was_busy_ = false;  // since a look that found it idle
  // At their least since the last trim.
  int64_t base_resident_bytes_ = 0;
  int64_t base_free_bytes_ = 0;
};

// Does the process's housekeeping on a thread of its own, from its construction
// until its destruction. One a process.
class Housekeeping {
 public:
  Housekeeping();
  Housekeeping(const Housekeeping&) = delete;
  Housekeeping& operator=(const Housekeeping&) = delete;
  ~Housekeeping();

 private:
  void Run();
  // Waits for about a second; true if the end has come.
  bool EndedMeanwhile();

  Mutex mutex_;
  CondVar end_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace qgemm

#endif  // QGEMM_BASE_HOUSEKEEPING_H_
