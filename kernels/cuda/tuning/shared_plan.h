// SPDX-License-Identifier: Apache-2.0
//
// Shared memory of a block in the small-M family: the decode table, a ring of
// slots, and room for the sums that other blocks send. A slot holds the
// activations of a stage's 128 columns, the stage's weights and two barriers.
// At the end of a block's work its own sums stand where table and ring were; of
// many tokens, what it receives does, too.

#ifndef QGEMM_KERNELS_CUDA_TUNING_SHARED_PLAN_H_
#define QGEMM_KERNELS_CUDA_TUNING_SHARED_PLAN_H_

// Callable from device code where the compiler knows of it.
#ifdef __CUDACC__
#define QGEMM_SHARED_PLAN_INLINE __host__ __device__ constexpr
#else
#define QGEMM_SHARED_PLAN_INLINE constexpr
#endif

namespace qgemm::cuda {

// The most a block takes; 1 KiB of the 228 that a Hopper multiprocessor has is
// the system's, for each block. And what any chip from sm_80 on gives it.
inline constexpr int kMaxBlockBytes = 226 << 10;
inline constexpr int kMinBlockBytes = 99 << 10;
// Of one token in a stage: 128 columns of 16 bits, in two panels of 64.
inline constexpr int kTokenBytes = 256;
inline constexpr int kPanelTokenBytes = 128;
inline constexpr int kBarrierBytes = 16;

// What a block's shared memory depends on.
struct SharedShape {
  int codes = 4;   // TileLayout::codes
  int tokens = 8;  // 8, 16, 32 or 64
  int stage_bytes = 0;
  int row_tiles = 1;
  int splits = 1;
  int column_warps = 1;
  int block_bytes = kMaxBlockBytes;  // that the block may take
};

// Of the decode table, at offset 0. Ternary codes need none.
QGEMM_SHARED_PLAN_INLINE int TableBytes(int codes) {
  return codes == 5 ? 128 << 10 : codes >= 2 ? 64 << 10 : 0;
}

// Floats between two tokens' rows of sums: lanes then write to different
// banks.
QGEMM_SHARED_PLAN_INLINE int SumStride(int row_tiles) {
  return row_tiles * 16 + 4;
}

// Of the sums of all warps that share rows.
QGEMM_SHARED_PLAN_INLINE int SumBytes(const SharedShape& shape) {
  return shape.column_warps * shape.tokens * SumStride(shape.row_tiles) * 4;
}

// Rows of a row block that fall to each block of a cluster of `splits`, the
// last ones left out; a multiple of four.
QGEMM_SHARED_PLAN_INLINE int RowsOfRank(int row_tiles, int splits) {
  return (row_tiles * 4 + splits - 1) / splits * 4;
}

// Of the sums that a block receives for the rows that fall to it.
QGEMM_SHARED_PLAN_INLINE int ReceivedBytes(const SharedShape& shape) {
  return (shape.splits - 1) * shape.tokens *
         RowsOfRank(shape.row_tiles, shape.splits) * 4;
}

// Whether there is room of its own for what is received. If not, a block must
// be done with its ring before others send.
QGEMM_SHARED_PLAN_INLINE bool ReceivesApart(int tokens) { return tokens < 64; }

QGEMM_SHARED_PLAN_INLINE int SlotBytes(const SharedShape& shape) {
  return shape.tokens * kTokenBytes + shape.stage_bytes + kBarrierBytes;
}

// Offsets from the start of shared memory.
struct SharedPlan {
  int activations;
  int weights;
  int barriers;  // of the slots, then one of what is received
  int received;
  int total;
};

QGEMM_SHARED_PLAN_INLINE SharedPlan PlanShared(const SharedShape& shape,
                                               int slots) {
  SharedPlan plan{};
  plan.activations = TableBytes(shape.codes);
  plan.weights = plan.activations + slots * shape.tokens * kTokenBytes;
  plan.barriers = plan.weights + slots * shape.stage_bytes;
  // Barriers stay clear of the sums.
  const int sums = SumBytes(shape);
  const bool apart = ReceivesApart(shape.tokens);
  const int end = apart ? sums : sums + ReceivedBytes(shape);
  if (plan.barriers < end) plan.barriers = end;
  const int barriers_end = plan.barriers + (slots + 1) * kBarrierBytes;
  plan.received = apart ? barriers_end : sums;
  plan.total = barriers_end + (apart ? ReceivedBytes(shape) : 0);
  return plan;
}

// Slots that fit; below 1 where not even the table does.
QGEMM_SHARED_PLAN_INLINE int SlotsThatFit(const SharedShape& shape) {
  const int apart = ReceivesApart(shape.tokens) ? ReceivedBytes(shape) : 0;
  return (shape.block_bytes - TableBytes(shape.codes) - kBarrierBytes - apart) /
         SlotBytes(shape);
}

}  // namespace qgemm::cuda

#undef QGEMM_SHARED_PLAN_INLINE

#endif  // QGEMM_KERNELS_CUDA_TUNING_SHARED_PLAN_H_
