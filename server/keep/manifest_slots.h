// SPDX-License-Identifier: Apache-2.0
//
// Slots of the manifest that are free, or in use by entries.

#ifndef QGEMM_SERVER_KEEP_MANIFEST_SLOTS_H_
#define QGEMM_SERVER_KEEP_MANIFEST_SLOTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/keep/manifest_memory.h"

namespace qgemm {

// Thread-safe.
class ManifestSlots {
 public:
  // `used`, in ascending order, are in use already.
  ManifestSlots(std::unique_ptr<ManifestMemory> memory,
                const std::vector<int64_t>& used)
      : memory_(std::move(memory)) {
    auto next = used.rbegin();
    for (int64_t slot = memory_->records(); slot > 0; --slot) {
      if (next != used.rend() && *next == slot) {
        ++next;
      } else {
        free_.push_back(slot);
      }
    }
  }

  // nullopt if no slot is free, or all is frozen.
  std::optional<int64_t> Write(const std::string& record) {
    MutexLock lock(&mutex_);
    if (is_frozen_ || free_.empty()) return std::nullopt;
    const int64_t slot = free_.back();
    free_.pop_back();
    memory_->Write(slot, record);
    return slot;
  }

  void Clear(int64_t slot) {
    MutexLock lock(&mutex_);
    if (is_frozen_) return;
    memory_->Clear(slot);
    free_.push_back(slot);
  }

  void Freeze() {
    MutexLock lock(&mutex_);
    is_frozen_ = true;
  }

  const ManifestMemory& memory() const { return *memory_; }

 private:
  const std::unique_ptr<ManifestMemory> memory_;
  Mutex mutex_;
  std::vector<int64_t> free_ ABSL_GUARDED_BY(mutex_);  // the lowest is last
  bool is_frozen_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_MANIFEST_SLOTS_H_
