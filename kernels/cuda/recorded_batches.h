// SPDX-License-Identifier: Apache-2.0
//
// The recorded batches of a stream, by program and rows. Bounded: the one that
// was used longest ago goes.

#ifndef QGEMM_KERNELS_CUDA_RECORDED_BATCHES_H_
#define QGEMM_KERNELS_CUDA_RECORDED_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "kernels/cuda/plan/wait_estimate.h"
#include "kernels/cuda/runtime/graph.h"

namespace qgemm::cuda {

// A CudaProgram::serial() and a RecordedRows().
using RecordedKey = std::pair<uint64_t, int64_t>;

struct RecordedBatch {
  Graph graph;
  WaitEstimate wait;
};

class RecordedBatches {
 public:
  // A model of 80 layers has 81 programs; each is recorded for up to eight
  // numbers of rows. A graph of 20 nodes holds some 50 KiB.
  static constexpr size_t kMax = 1024;

  // Null if there is none. The pointer is good until the next call of Add or
  // Clear.
  RecordedBatch* Find(const RecordedKey& key) {
    const auto found = graphs_.find(key);
    if (found == graphs_.end()) return nullptr;
    found->second.used = ++uses_;
    return &found->second.batch;
  }

  RecordedBatch* Add(const RecordedKey& key, Graph graph) {
    if (graphs_.size() == kMax) DropOldest();
    Entry& entry = graphs_[key];
    entry = {{std::move(graph), WaitEstimate()}, ++uses_};
    return &entry.batch;
  }

  void Clear() { graphs_.clear(); }

 private:
  struct Entry {
    RecordedBatch batch;
    uint64_t used = 0;
  };

  void DropOldest() {
    auto oldest = graphs_.begin();
    for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
      if (it->second.used < oldest->second.used) oldest = it;
    }
    graphs_.erase(oldest);
  }

  absl::flat_hash_map<RecordedKey, Entry> graphs_;
  uint64_t uses_ = 0;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RECORDED_BATCHES_H_
