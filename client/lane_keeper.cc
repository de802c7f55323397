// SPDX-License-Identifier: Apache-2.0

#include "client/lane_keeper.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// Between the end of a lane and the tries to open the next; gRPC's own pauses
// grow to 5 s as well.
constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kMaxPause = absl::Seconds(5);
// For one such try.
constexpr absl::Duration kOpenLimit = absl::Seconds(2);

// The keeper whose thread this is.
thread_local const LaneKeeper* current_keeper = nullptr;

}  // namespace

LaneKeeper::~LaneKeeper() {
  RequestStop();
  Join();
}

absl::StatusOr<std::shared_ptr<ClientLane>> LaneKeeper::Open(
    absl::Time deadline) const {
  ASSIGN_OR_RETURN(const std::string path, find_path_(deadline));
  if (path.empty()) {
    return absl::UnavailableError(
        "the server offers no lane to this client; one that does has "
        "--lane_listen");
  }
  return ClientLane::Open(path, token_ == nullptr ? "" : token_->token(),
                          options_, deadline);
}

absl::Status LaneKeeper::Start(absl::Time deadline) {
  ASSIGN_OR_RETURN(std::shared_ptr<ClientLane> lane, Open(deadline));
  if (Take(lane)) {
    thread_ = std::thread([this, first = std::move(lane)] { Keep(first); });
  }
  return absl::OkStatus();
}

std::shared_ptr<ClientLane> LaneKeeper::lane() const {
  MutexLock lock(&mutex_);
  return lane_ == nullptr || lane_->has_ended() ? nullptr : lane_;
}

bool LaneKeeper::is_kept() const {
  MutexLock lock(&mutex_);
  return is_kept_;
}

bool LaneKeeper::OnLaneThread() const {
  if (current_keeper == this) return true;
  MutexLock lock(&mutex_);
  return lane_ != nullptr && lane_->OnThread();
}

bool LaneKeeper::is_stopped() const {
  MutexLock lock(&mutex_);
  return stopped_;
}

bool LaneKeeper::Take(std::shared_ptr<ClientLane> lane) {
  MutexLock lock(&mutex_);
  if (stopped_) return false;
  is_kept_ = true;
  lane_ = std::move(lane);
  return true;
}

void LaneKeeper::RequestStop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  changed_.SignalAll();
  if (lane_ != nullptr) lane_->HangUp();
}

void LaneKeeper::Join() {
  if (thread_.joinable()) thread_.join();
}

void LaneKeeper::Keep(std::shared_ptr<ClientLane> current) {
  current_keeper = this;
  for (; current != nullptr; current = OpenAgain()) {
    (void)current->Serve();  // its calls are told why
    MutexLock lock(&mutex_);
    lane_ = nullptr;
  }
}

std::shared_ptr<ClientLane> LaneKeeper::OpenAgain() {
  absl::Duration pause = kFirstPause;
  while (Sleep(pause)) {
    const auto opened = Open(absl::Now() + kOpenLimit);
    if (opened.ok()) return Take(*opened) ? *opened : nullptr;
    pause = std::min(2 * pause, kMaxPause);
  }
  return nullptr;
}

bool LaneKeeper::Sleep(absl::Duration pause) {
  const absl::Time end = absl::Now() + pause;
  MutexLock lock(&mutex_);
  for (absl::Duration left = pause; !stopped_ && left > absl::ZeroDuration();
       left = end - absl::Now()) {
    changed_.WaitFor(&mutex_, left);
  }
  return !stopped_;
}

}  // namespace qgemm
