// SPDX-License-Identifier: Apache-2.0
//
// Recordings by what they are of, so many at most. What can do without a
// recording of its own takes no room from others that are in use.

#ifndef QGEMM_KERNELS_CUDA_PLAN_RECORDING_CACHE_H_
#define QGEMM_KERNELS_CUDA_PLAN_RECORDING_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace qgemm::cuda {

template <typename Key, typename Value>
class RecordingCache {
 public:
  // At least 1.
  explicit RecordingCache(size_t most) : most_(most) {}

  // Null if there is none. Pointers are good until the next call of Add,
  // HasRoom or Clear.
  Value* Find(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    found->second.used = ++uses_;
    return &found->second.value;
  }

  // The one that was used longest ago goes if there is no room.
  Value* Add(const Key& key, Value value) {
    if (entries_.size() >= most_) entries_.erase(Oldest());
    Entry& entry = entries_[key];
    entry = {std::move(value), ++uses_};
    return &entry.value;
  }

  // True if there is room for one more, or one goes that has not been used for
  // long.
  bool HasRoom() {
    if (entries_.size() < most_) return true;
    if (uses_ < next_look_) return false;
    next_look_ = uses_ + most_;
    const auto oldest = Oldest();
    if (uses_ - oldest->second.used < kLong * most_) return false;
    entries_.erase(oldest);
    return true;
  }

  template <typename Visitor>
  void ForEach(const Visitor& visit) {
    for (auto& [key, entry] : entries_) visit(entry.value);
  }

  void Clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

 private:
  // Uses, for each recording that there may be.
  static constexpr uint64_t kLong = 16;

  struct Entry {
    Value value;
    uint64_t used = 0;
  };
  using Entries = absl::flat_hash_map<Key, Entry>;

  typename Entries::iterator Oldest() {
    auto oldest = entries_.begin();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second.used < oldest->second.used) oldest = it;
    }
    return oldest;
  }

  const size_t most_;
  Entries entries_;
  uint64_t uses_ = 0;
  uint64_t next_look_ = 0;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_RECORDING_CACHE_H_
