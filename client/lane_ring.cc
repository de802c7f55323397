// SPDX-License-Identifier: Apache-2.0

#include "client/lane_ring.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "lane/doorbell.h"
#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

// A sleeper looks so often whether its lane has been closed.
constexpr absl::Duration kMaxSleep = absl::Milliseconds(50);
// Looks at a completion between two at the clock, which takes as long as some.
constexpr int kLooks = 16;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// The segment is shared between processes, so its futexes are not private.
void FutexWait(lane::SharedU32* word, uint32_t value, absl::Duration timeout) {
  const timespec limit = absl::ToTimespec(timeout);
  syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void FutexWakeAll(lane::SharedU32* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

absl::Duration Nanoseconds(uint64_t count) {
  return absl::Nanoseconds(static_cast<int64_t>(count));
}

}  // namespace

LaneRing::LaneRing(std::shared_ptr<LaneSegment> segment,
                   FileDescriptor doorbell, absl::Duration spin)
    : segment_(std::move(segment)),
      doorbell_(std::move(doorbell)),
      spin_(spin),
      cookies_(segment_->slots(), 0) {
  for (uint32_t slot = segment_->slots(); slot > 0; --slot) {
    free_slots_.push_back(slot - 1);
  }
}

std::optional<LaneSlot> LaneRing::TakeSlot() {
  MutexLock lock(&mutex_);
  if (free_slots_.empty()) return std::nullopt;
  LaneSlot slot;
  slot.number = free_slots_.back();
  free_slots_.pop_back();
  slot.cookie = ++cookies_[slot.number];
  return slot;
}

void LaneRing::ReturnSlot(LaneSlot slot) {
  MutexLock lock(&mutex_);
  free_slots_.push_back(slot.number);
}

void LaneRing::Publish(LaneSlot slot, lane::RequestEntry entry) {
  entry.slot = slot.number;
  entry.cookie = slot.cookie;
  lane::SegmentHead& head = segment_->head();
  {
    MutexLock lock(&mutex_);
    segment_->request(published_ & (segment_->slots() - 1)) = entry;
    head.published.store(++published_);
  }
  if (!lane::MustWake(head.server_sleeps)) return;
  const uint64_t one = 1;
  // Fails only if the counter is full, which wakes the server as well.
  (void)!write(doorbell_.get(), &one, sizeof(one));
}

bool LaneRing::IsDone(LaneSlot slot) const {
  return segment_->completion(slot.number).cookie.load() == slot.cookie;
}

bool LaneRing::Spin(const lane::Completion& completion, uint32_t cookie) const {
  if (spin_ <= absl::ZeroDuration()) return false;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + absl::ToChronoNanoseconds(spin_);
  do {
    for (int look = 0; look < kLooks; ++look) {
      if (completion.cookie.load(std::memory_order_acquire) == cookie) {
        return true;
      }
      Pause();
    }
  } while (Clock::now() < end);
  return false;
}

void LaneRing::Sleep(LaneSlot slot, absl::Duration limit) const {
  lane::Completion& completion = segment_->completion(slot.number);
  const uint32_t shown = completion.cookie.load();
  if (shown == slot.cookie) return;
  const auto is_done = [&] { return IsDone(slot); };
  if (!lane::FallAsleep(completion.sleeps, is_done)) return;
  FutexWait(&completion.cookie, shown, std::min(limit, kMaxSleep));
  lane::StayAwake(completion.sleeps);
}

LaneRing::WaitEnd LaneRing::Wait(LaneSlot slot, absl::Time deadline,
                                 AnswerEstimate* estimate) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  ObservedWait wait;
  // A thread that does not look for the answer need not be awake before it.
  if (spin_ > absl::ZeroDuration()) {
    wait.slept_until =
        std::min(estimate->sleep_until(), deadline - absl::Now());
  }
  if (wait.slept_until > absl::ZeroDuration()) {
    const PunctualSleeps punctual;
    Sleep(slot, wait.slept_until);
    wait.awake = absl::FromChrono(Clock::now() - begin);
    wait.ended_asleep = IsDone(slot);
  }
  WaitEnd end = WaitEnd::kDone;
  if (!Spin(segment_->completion(slot.number), slot.cookie)) {
    end = WaitAsleep(slot, deadline);
  }
  if (end == WaitEnd::kDone) {
    wait.ended = absl::FromChrono(Clock::now() - begin);
    estimate->Observe(wait);
  }
  return end;
}

LaneRing::WaitEnd LaneRing::WaitAsleep(LaneSlot slot,
                                       absl::Time deadline) const {
  while (true) {
    // Before the answer is looked for: one that came before the end counts.
    const bool closed = closed_.load();
    if (IsDone(slot)) return WaitEnd::kDone;
    if (closed) return WaitEnd::kClosed;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return WaitEnd::kDeadline;
    Sleep(slot, left);
  }
}

absl::Status LaneRing::StatusOf(LaneSlot slot) const {
  const lane::Completion& completion = segment_->completion(slot.number);
  if (completion.code == 0) return absl::OkStatus();
  const uint32_t bytes =
      std::min<uint32_t>(completion.message_bytes, lane::kMaxMessageBytes);
  const absl::Status status(static_cast<absl::StatusCode>(completion.code),
                            absl::string_view(completion.message, bytes));
  if (completion.retry_delay_ns == 0) return status;
  return WithRetryDelay(status, Nanoseconds(completion.retry_delay_ns));
}

Timings LaneRing::TimingsOf(LaneSlot slot) const {
  const lane::Completion& completion = segment_->completion(slot.number);
  Timings timings;
  timings.queue = Nanoseconds(completion.queue_ns);
  timings.host_to_device = Nanoseconds(completion.host_to_device_ns);
  timings.kernel = Nanoseconds(completion.kernel_ns);
  timings.device_to_host = Nanoseconds(completion.device_to_host_ns);
  timings.total = Nanoseconds(completion.total_ns);
  timings.launch_rows = completion.launch_rows;
  timings.launch_requests = completion.launch_requests;
  return timings;
}

void LaneRing::Close() {
  closed_.store(true);
  for (uint32_t slot = 0; slot < segment_->slots(); ++slot) {
    FutexWakeAll(&segment_->completion(slot).cookie);
  }
}

bool LaneRing::has_ended() const {
  return closed_.load(std::memory_order_relaxed) ||
         segment_->head().ended.load(std::memory_order_relaxed) != 0;
}

}  // namespace qgemm
