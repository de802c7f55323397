// SPDX-License-Identifier: Apache-2.0

#include "client/chunk_relay.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace qgemm {

ChunkRelay::ChunkRelay(size_t takers, absl::Duration patience,
                       std::function<void(size_t taker)> on_behind)
    : patience_(patience),
      on_behind_(std::move(on_behind)),
      takers_(takers, Taker::kSends) {}

size_t ChunkRelay::Count(Taker state) const {
  return std::count(takers_.begin(), takers_.end(), state);
}

std::vector<size_t> ChunkRelay::AwaitTakers() {
  std::vector<size_t> behind;
  absl::Time end = absl::InfiniteFuture();
  while (Count(Taker::kHasToTake) > 0) {
    const absl::Time now = absl::Now();
    end = Count(Taker::kWaits) == 0 ? absl::InfiniteFuture()
                                    : std::min(end, now + patience_);
    if (now < end) {
      changed_.WaitFor(&mutex_, end - now);
      continue;
    }
    for (size_t i = 0; i < takers_.size(); ++i) {
      if (takers_[i] != Taker::kHasToTake) continue;
      takers_[i] = Taker::kBehind;
      behind.push_back(i);
    }
  }
  return behind;
}

bool ChunkRelay::Put(Chunk chunk) {
  std::vector<size_t> behind;
  bool has_taker = false;
  {
    MutexLock lock(&mutex_);
    behind = AwaitTakers();
    for (Taker& taker : takers_) {
      if (taker != Taker::kSends && taker != Taker::kWaits) continue;
      taker = Taker::kHasToTake;
      has_taker = true;
    }
    chunk_ = std::move(chunk);
  }
  changed_.SignalAll();
  for (const size_t taker : behind) on_behind_(taker);
  return has_taker;
}

void ChunkRelay::Close(End end) {
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    broken_ = end == End::kBroken;
  }
  changed_.SignalAll();
}

ChunkRelay::Chunk ChunkRelay::Take(size_t taker) {
  MutexLock lock(&mutex_);
  Taker& state = takers_[taker];
  if (state == Taker::kSends) {
    state = Taker::kWaits;
    changed_.SignalAll();
  }
  while (state == Taker::kWaits && !closed_) changed_.Wait(&mutex_);
  if (state != Taker::kHasToTake || broken_) return nullptr;
  state = Taker::kSends;
  changed_.SignalAll();
  return chunk_;
}

bool ChunkRelay::IsWhole(size_t taker) const {
  MutexLock lock(&mutex_);
  return closed_ && !broken_ && takers_[taker] == Taker::kWaits;
}

bool ChunkRelay::IsBehind(size_t taker) const {
  MutexLock lock(&mutex_);
  return takers_[taker] == Taker::kBehind;
}

void ChunkRelay::Leave(size_t taker) {
  {
    MutexLock lock(&mutex_);
    if (takers_[taker] != Taker::kBehind) takers_[taker] = Taker::kLeft;
  }
  changed_.SignalAll();
}

}  // namespace qgemm
