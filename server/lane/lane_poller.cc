// SPDX-License-Identifier: Apache-2.0
//
// Doorbells are watched for edges and never read: a client that shares one may
// make a read of it block.

#include "server/lane/lane_poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace qgemm {
namespace {

// Lanes whose memory is on its way while one is looked at.
constexpr size_t kLanesAhead = 8;

// A batch that takes longer may as well wake up the backend's own thread.
constexpr absl::Duration kWatch = absl::Microseconds(500);

// Returns how long after the last work the thread looks for more.
absl::Duration PatienceAfter(PollResult result, absl::Duration spin) {
  const bool watches =
      result == PollResult::kUnderWay && spin > absl::ZeroDuration();
  return watches ? std::max(spin, kWatch) : spin;
}

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

void Watch(int epoll, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLET;
  CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0)
      << std::strerror(errno);
}

}  // namespace

LanePoller::LanePoller(absl::Duration spin, CompletionPoller* completions,
                       Callbacks callbacks)
    : spin_(spin),
      completions_(completions),
      callbacks_(std::move(callbacks)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(epoll_.valid() && wake_.valid()) << std::strerror(errno);
  Watch(epoll_.get(), wake_.get());
}

LanePoller::~LanePoller() { Stop(); }

void LanePoller::Start() {
  thread_ = std::thread([this] { Run(); });
}

void LanePoller::Stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  WakeUp();
  thread_.join();
}

void LanePoller::Add(const std::shared_ptr<Lane>& lane) {
  {
    MutexLock lock(&mutex_);
    lanes_.push_back(lane);
  }
  changes_.fetch_add(1);
  Watch(epoll_.get(), lane->doorbell());
  WakeUp();
}

void LanePoller::Remove(const std::shared_ptr<Lane>& lane) {
  {
    MutexLock lock(&mutex_);
    lanes_.erase(std::remove(lanes_.begin(), lanes_.end(), lane), lanes_.end());
  }
  changes_.fetch_add(1);
  // The client has the doorbell too, which would go on ringing.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, lane->doorbell(), nullptr);
  WakeUp();
}

void LanePoller::Run() {
  const SteadyClock clock;
  Lanes lanes;
  uint64_t seen = 0;
  absl::Time busy = clock.Now();
  Attend();
  while (!stopping_.load()) {
    const uint64_t changes = changes_.load();
    if (changes != seen) {
      MutexLock lock(&mutex_);
      lanes = lanes_;
      seen = changes;
    }
    const PollResult result = Poll(lanes);
    if (result == PollResult::kEnded) {
      busy = clock.Now();
    } else if (clock.Now() - busy < PatienceAfter(result, spin_)) {
      Pause();
    } else {
      Leave();
      Sleep(lanes);
      Attend();
      busy = clock.Now();
    }
  }
  Leave();
}

void LanePoller::Attend() {
  if (completions_ != nullptr) completions_->Attend();
}

void LanePoller::Leave() {
  if (completions_ != nullptr) completions_->Leave();
}

PollResult LanePoller::Poll(const Lanes& lanes) {
  const bool served = PollAll(lanes);
  const PollResult result =
      completions_ == nullptr ? PollResult::kNothing : completions_->Poll();
  return served ? PollResult::kEnded : result;
}

bool LanePoller::PollAll(const Lanes& lanes) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (i + kLanesAhead < lanes.size()) {
      lanes[i + kLanesAhead]->requests().Prefetch();
    }
    Take(lanes[i]);
  }
  if (taken_.empty()) return false;
  callbacks_.serve(taken_);
  taken_.clear();
  return true;
}

void LanePoller::Take(const std::shared_ptr<Lane>& lane) {
  if (lane->is_broken()) return;
  RequestReader& requests = lane->requests();
  const absl::StatusOr<uint32_t> waiting = requests.Waiting();
  if (!waiting.ok()) return Break(lane, waiting.status());
  const uint32_t turn = std::min(*waiting, kLaneTurn);
  for (uint32_t i = 0; i < turn; ++i) {
    const lane::RequestEntry entry = requests.Take();
    const absl::Status claimed = lane->completions().Claim(entry.slot);
    if (!claimed.ok()) {
      return Break(lane, claimed);
    }
    taken_.push_back({lane, entry});
  }
}

void LanePoller::Sleep(const Lanes& lanes) {
  bool sleeps = true;
  size_t asleep = 0;
  for (; sleeps && asleep < lanes.size(); ++asleep) {
    sleeps =
        lanes[asleep]->is_broken() || lanes[asleep]->requests().FallAsleep();
  }
  if (sleeps) {
    // One that is dropped here would be found at the next sleep.
    constexpr int kEvents = 16;
    epoll_event events[kEvents];
    epoll_wait(epoll_.get(), events, kEvents, -1);
    callbacks_.woken();
  }
  for (size_t i = 0; i < asleep; ++i) lanes[i]->requests().StayAwake();
}

void LanePoller::Break(const std::shared_ptr<Lane>& lane,
                       const absl::Status& violation) {
  if (lane->Break(violation)) callbacks_.broken();
}

void LanePoller::WakeUp() {
  const uint64_t one = 1;
  CHECK_EQ(write(wake_.get(), &one, sizeof(one)),
           static_cast<ssize_t>(sizeof(one)));
}

}  // namespace qgemm
