// SPDX-License-Identifier: Apache-2.0
//
// Slots of calls that threads wait for have done words too, which say nothing
// here; and they are not held up until this thread has read its words, so that
// the ring may lap it.

#include "client/lane_reaper.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/time/clock.h"
#include "base/check.h"
#include "lane/doorbell.h"
#include "lane/segment.h"

namespace qgemm {
namespace {

// Deadlines are looked at so often while answers come.
constexpr absl::Duration kSweepEvery = absl::Milliseconds(5);
constexpr absl::Duration kMaxSleep = absl::Milliseconds(50);
// Less is not worth a sleep.
constexpr absl::Duration kLeastSleep = absl::Microseconds(10);
// After so long without an answer it is worth while to look for when the next
// one is expected.
constexpr absl::Duration kGlance = absl::Microseconds(5);
// Looks between two at the clock.
constexpr int kLooks = 16;

// The reaper whose thread this is.
thread_local const LaneReaper* current_reaper = nullptr;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

LaneReaper::LaneReaper(std::shared_ptr<LaneSegment> segment,
                       const LaneRing* ring, FileDescriptor wake,
                       absl::Duration spin)
    : segment_(std::move(segment)),
      ring_(*ring),
      wake_(std::move(wake)),
      kick_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      spin_(spin),
      awaited_(segment_->slots()),
      cancelled_(segment_->slots(), false) {
  CHECK(kick_.valid()) << std::strerror(errno);
}

LaneReaper::~LaneReaper() { Stop(); }

bool LaneReaper::Reserve() {
  MutexLock lock(&mutex_);
  if (stopping_) return false;
  if (count_.fetch_add(1) == 0) changed_.Signal();
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  return true;
}

void LaneReaper::Await(Awaited call) {
  const uint32_t slot = call.slot.number;
  call.published = absl::Now();
  MutexLock lock(&mutex_);
  awaited_[slot] = std::move(call);
  cancelled_[slot] = false;
  if (stopping_) SweepNow();
}

void LaneReaper::Cancel(LaneSlot slot) {
  MutexLock lock(&mutex_);
  const std::optional<Awaited>& call = awaited_[slot.number];
  if (!call.has_value() || call->slot.cookie != slot.cookie) return;
  cancelled_[slot.number] = true;
  SweepNow();
}

void LaneReaper::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
    SweepNow();
  }
  if (thread_.joinable()) thread_.join();
}

bool LaneReaper::OnThread() const { return current_reaper == this; }

void LaneReaper::Run() {
  current_reaper = this;
  const PunctualSleeps punctual;
  absl::Time busy = absl::Now();
  absl::Time swept = busy;
  while (AwaitCalls()) {
    bool found = false;
    for (int look = 0; look < kLooks && !found; ++look) {
      found = TakeDone();
      if (!found) Pause();
    }
    const absl::Time now = absl::Now();
    if (found) {
      busy = now;
      expected_.reset();
    } else if (!expected_.has_value() && now - busy >= kGlance) {
      expected_ = LookAhead();
    }
    const bool is_early =
        expected_.has_value() && expected_->sleep_until - now >= kLeastSleep;
    const bool sleeps = !found && (is_early || now - busy >= spin_);
    if (sleeps) Sleep();
    if (sleeps || now - swept > kSweepEvery || must_sweep_.exchange(false)) {
      Sweep();
      swept = absl::Now();
    }
    if (sleeps) busy = swept;
    was_asleep_ = false;
  }
}

LaneReaper::Expected LaneReaper::LookAhead() {
  Expected next;
  // A thread that does not look for answers need not be awake before them.
  if (spin_ <= absl::ZeroDuration()) return next;
  bool any = false;
  MutexLock lock(&mutex_);
  for (const std::optional<Awaited>& call : awaited_) {
    if (!call.has_value()) continue;
    const absl::Time sleep_until =
        call->published + call->estimate->sleep_until();
    if (any && sleep_until >= next.sleep_until) continue;
    next = {call->slot, sleep_until};
    any = true;
  }
  return next;
}

bool LaneReaper::AwaitCalls() {
  if (count_.load(std::memory_order_relaxed) > 0) return true;
  MutexLock lock(&mutex_);
  while (count_.load() == 0 && !stopping_) changed_.Wait(&mutex_);
  return count_.load() > 0;
}

uint64_t LaneReaper::NextWord() const {
  const uint64_t word =
      segment_->done_word(position_ & (segment_->slots() - 1)).load();
  const auto lap = static_cast<uint32_t>(word >> 32);
  const auto expected =
      static_cast<uint32_t>(position_ / segment_->slots() + 1);
  // A word of the lap before is not news; one of a later lap is.
  return static_cast<int32_t>(lap - expected) >= 0 ? word : 0;
}

bool LaneReaper::HasNews() const { return NextWord() != 0; }

bool LaneReaper::TakeDone() {
  bool found = false;
  while (const uint64_t word = NextWord()) {
    found = true;
    const auto lap = static_cast<uint32_t>(word >> 32);
    const auto missed =
        lap - static_cast<uint32_t>(position_ / segment_->slots() + 1);
    if (missed > 0) {
      position_ += uint64_t{missed} * segment_->slots();
      must_sweep_.store(true);
    }
    ++position_;
    const auto slot = static_cast<uint32_t>(word);
    Ended ended;
    {
      MutexLock lock(&mutex_);
      if (slot >= awaited_.size()) continue;
      std::optional<Awaited>& call = awaited_[slot];
      if (!call.has_value() || !ring_.IsDone(call->slot)) continue;
      ended = Take(&call, LaneRing::WaitEnd::kDone, absl::Now());
    }
    ended.done(ended.end);
  }
  return found;
}

void LaneReaper::Observe(const Awaited& call, absl::Time now) {
  ObservedWait wait;
  wait.ended = now - call.published;
  if (was_asleep_ && expected_.has_value() &&
      expected_->slot.number == call.slot.number) {
    wait.slept_until = expected_->sleep_until - call.published;
    wait.awake = awake_ - call.published;
    wait.ended_asleep = true;
  }
  call.estimate->Observe(wait);
}

LaneReaper::Ended LaneReaper::Take(std::optional<Awaited>* call,
                                   LaneRing::WaitEnd end, absl::Time now) {
  if (end == LaneRing::WaitEnd::kDone) Observe(**call, now);
  Ended ended = {std::move((*call)->done), end};
  call->reset();
  count_.fetch_sub(1);
  return ended;
}

std::optional<LaneRing::WaitEnd> LaneReaper::EndOf(const Awaited& call,
                                                   absl::Time now) const {
  if (ring_.IsDone(call.slot)) return LaneRing::WaitEnd::kDone;
  if (stopping_) return LaneRing::WaitEnd::kClosed;
  if (!call.can_be_left) return std::nullopt;
  if (cancelled_[call.slot.number]) return LaneRing::WaitEnd::kCancelled;
  if (now >= call.deadline) return LaneRing::WaitEnd::kDeadline;
  return std::nullopt;
}

void LaneReaper::Sweep() {
  const absl::Time now = absl::Now();
  std::vector<Ended> ended;
  {
    MutexLock lock(&mutex_);
    for (std::optional<Awaited>& call : awaited_) {
      if (!call.has_value()) continue;
      const auto end = EndOf(*call, now);
      if (end.has_value()) ended.push_back(Take(&call, *end, now));
    }
  }
  for (Ended& each : ended) each.done(each.end);
}

absl::Duration LaneReaper::UntilNextDeadline() {
  absl::Time next = absl::InfiniteFuture();
  MutexLock lock(&mutex_);
  for (const std::optional<Awaited>& call : awaited_) {
    if (call.has_value() && call->can_be_left) {
      next = std::min(next, call->deadline);
    }
  }
  return std::clamp(next - absl::Now(), absl::ZeroDuration(), kMaxSleep);
}

void LaneReaper::Sleep() {
  const absl::Duration until_answer = expected_.has_value()
                                          ? expected_->sleep_until - absl::Now()
                                          : absl::ZeroDuration();
  const bool is_timed = until_answer > absl::ZeroDuration();
  absl::Duration longest = UntilNextDeadline();
  if (is_timed) longest = std::min(longest, until_answer);
  const timespec limit = absl::ToTimespec(longest);
  lane::SharedU32& sleeps = segment_->head().client_sleeps;
  if (!lane::FallAsleep(sleeps, [this] { return HasNews(); })) return;
  pollfd wakers[] = {{kick_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  ppoll(wakers, 2, &limit, nullptr);
  lane::StayAwake(sleeps);
  was_asleep_ = is_timed;
  awake_ = absl::Now();
  uint64_t wakes;
  if (wakers[0].revents != 0) (void)!read(kick_.get(), &wakes, sizeof(wakes));
  if (wakers[1].revents == 0) return;
  ssize_t size;
  do {
    size = recv(wake_.get(), &wakes, sizeof(wakes), MSG_DONTWAIT);
  } while (size > 0);
  // The lane's end comes from elsewhere.
  if (size == 0 || errno != EAGAIN) wake_ = FileDescriptor();
}

void LaneReaper::SweepNow() {
  must_sweep_.store(true);
  const uint64_t one = 1;
  // Fails only if the counter is full, which wakes as well.
  (void)!write(kick_.get(), &one, sizeof(one));
}

}  // namespace qgemm
