// SPDX-License-Identifier: Apache-2.0
//
// Runs one batch to its end: prepares rows, walks tiles with microkernels,
// writes results. Queues and completions are in cpu_backend.cc.

#ifndef QGEMM_KERNELS_CPU_BATCH_RUNNER_H_
#define QGEMM_KERNELS_CPU_BATCH_RUNNER_H_

#include <cstdint>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/microkernel_table.h"
#include "kernels/cpu/prepared_rows.h"
#include "kernels/cpu/row_strips.h"
#include "kernels/cpu/support.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cpu {

// Used by one thread at a time, but for progress(). In steady state it does not
// allocate.
class BatchRunner {
 public:
  // One row of a product, borrowed.
  struct Row {
    const uint8_t* a;  // [k] of the signature's a_type
    uint8_t* c;        // [n] of its c_type
    // Rows of its request, which decide its microkernels (support.h).
    int64_t request_rows;
  };

  BatchRunner(CpuIsa isa, int threads)
      : table_(TableOf(isa)), pool_(threads), prepared_(table_.split_row) {}

  int threads() const { return pool_.threads(); }
  // For loops between runs, on the thread that runs batches.
  ThreadPool& pool() { return pool_; }
  HalfConversions half_conversions() const { return table_.half_conversions; }

  // Grows with every piece of a batch that a thread begins: a row to prepare,
  // or some tiles for all rows of a block. Thread-safe.
  uint64_t progress() const { return pool_.draws(); }

  // `batch` is one that CheckSignature passes, over CpuWeights.
  // RESOURCE_EXHAUSTED if there is no memory for its rows.
  absl::Status Run(const GemmBatch& batch);

  // Multiplies rows from anywhere, under a signature that CheckSignature
  // passes. Errors are those of Run.
  absl::Status RunRows(const CpuWeights& weights,
                       const MatmulSignature& signature,
                       absl::Span<const Row> rows);

 private:
  // Rows that fit in memory at once; all tiles are multiplied with them.
  struct RowBlock {
    const CpuWeights& weights;
    const RowSource& source;
    absl::Span<const Row> rows;
  };

  // Made once: a choice looks at every microkernel.
  const FamilyChoice& ChoiceOf(const FamilyKeys& keys);
  absl::Status RunBlock(const RowBlock& block, const FamilyChoice& choice,
                        absl::Span<const RowFamily> families);
  // `count` tiles from `first` on, at most as many as the strip's microkernel
  // takes.
  void MultiplyTiles(const RowBlock& block, const RowStrip& strip,
                     int64_t first, int64_t count) const;
  void ReplaceRowsWithoutParts(const RowBlock& block, const RowStrip& strip,
                               int64_t tile, float* sums) const;
  void StoreTile(const RowBlock& block, const RowStrip& strip, int64_t tile,
                 const float* sums) const;

  const MicrokernelTable table_;
  ThreadPool pool_;
  absl::node_hash_map<FamilyKeys, FamilyChoice> choices_;
  PreparedRows prepared_;
  std::vector<Row> rows_;            // of Run's batch
  std::vector<RowFamily> families_;  // of each row
  std::vector<RowStrip> strips_;     // of the row block
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_BATCH_RUNNER_H_
