// SPDX-License-Identifier: Apache-2.0
//
// Sleep of a lane's side, which misses nothing that the other side publishes.

#ifndef QGEMM_LANE_DOORBELL_H_
#define QGEMM_LANE_DOORBELL_H_

#include <atomic>
#include <cstdint>

namespace qgemm::lane {

// Two words and a wake: the one that waits sets `sleeps`, then looks at the
// news once more; the one that has news publishes, then looks at `sleeps`. All
// four are sequentially consistent, or PublishFence stands between the latter
// two, so at least one of them sees the other: no news is missed, and nobody is
// woken who does not sleep.
//
// Word is std::atomic<uint32_t>; tests/lane/doorbell_test.cc runs every
// interleaving of a model of it.

// Waiter's side. True: sleep until woken, then call StayAwake. False: there are
// news; nobody sleeps. `has_news` must read what is published with
// std::memory_order_seq_cst.
template <typename Word, typename HasNews>
bool FallAsleep(Word& sleeps, const HasNews& has_news) {
  sleeps.store(1);
  if (!has_news()) return true;
  sleeps.store(0);
  return false;
}

template <typename Word>
void StayAwake(Word& sleeps) {
  sleeps.store(0);
}

// Publisher's side, between news of several words, stored with
// std::memory_order_release, and MustWake: waits for all of them together,
// where sequentially consistent stores are waited for one by one.
inline void PublishFence() {
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer knows no fences.
  static std::atomic<uint32_t> fence{0};
  fence.fetch_add(1);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Publisher's side, after the news are stored with std::memory_order_seq_cst,
// or PublishFence. True: wake the waiter, by its descriptor or FUTEX_WAKE. It
// may be true for several publishers of one sleep.
template <typename Word>
bool MustWake(const Word& sleeps) {
  return sleeps.load() != 0;
}

}  // namespace qgemm::lane

#endif  // QGEMM_LANE_DOORBELL_H_
