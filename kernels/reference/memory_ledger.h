// SPDX-License-Identifier: Apache-2.0
//
// Counts the bytes that a backend has handed out, against a limit. Takes no
// memory itself.

#ifndef QGEMM_KERNELS_REFERENCE_MEMORY_LEDGER_H_
#define QGEMM_KERNELS_REFERENCE_MEMORY_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace qgemm {

// Thread-safe.
class MemoryLedger {
 public:
  explicit MemoryLedger(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  int64_t limit_bytes() const { return limit_bytes_; }
  int64_t used_bytes() const { return used_bytes_.load(); }

  // False, and nothing taken, if that would go beyond the limit.
  bool TryTake(int64_t bytes) {
    int64_t used = used_bytes_.load();
    do {
      if (bytes > limit_bytes_ - used) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
    return true;
  }
  void GiveBack(int64_t bytes) { used_bytes_ -= bytes; }

 private:
  const int64_t limit_bytes_;
  std::atomic<int64_t> used_bytes_{0};
};

// Bytes taken from a ledger, given back on destruction. Move-only; must not
// outlive the ledger.
class MemoryReservation {
 public:
  MemoryReservation() = default;
  // Owns `bytes` that TryTake has granted.
  MemoryReservation(MemoryLedger* ledger, int64_t bytes)
      : ledger_(ledger), bytes_(bytes) {}
  MemoryReservation(MemoryReservation&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryReservation& operator=(MemoryReservation&& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryReservation() {
    if (ledger_ != nullptr) ledger_->GiveBack(bytes_);
  }

  int64_t bytes() const { return bytes_; }

 private:
  MemoryLedger* ledger_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_REFERENCE_MEMORY_LEDGER_H_
