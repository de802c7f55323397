// SPDX-License-Identifier: Apache-2.0
//
// Shared memory of a block in the small-M family: the decode table, then a
// ring of slots. A slot holds the activations of a stage's 128 columns, the
// stage's weights and two barriers.

#ifndef QGEMM_KERNELS_CUDA_TUNING_SHARED_PLAN_H_
#define QGEMM_KERNELS_CUDA_TUNING_SHARED_PLAN_H_

// Callable from device code where the compiler knows of it.
#ifdef __CUDACC__
#define QGEMM_SHARED_PLAN_INLINE __host__ __device__ constexpr
#else
#define QGEMM_SHARED_PLAN_INLINE constexpr
#endif

namespace qgemm::cuda {

// What a block may take; 1 KiB of the 228 a multiprocessor has is the
// system's, for each block.
inline constexpr int kBlockSharedBytes = 226 << 10;
// Bytes between two tokens of a stage: 128 columns, and 64 bytes so that the
// lanes of a load meet different banks.
inline constexpr int kTokenBytes = 256 + 64;
inline constexpr int kBarrierBytes = 16;

// Of the decode table, at offset 0.
QGEMM_SHARED_PLAN_INLINE int TableBytes(int bits) {
  return bits == 5 ? 128 << 10 : 64 << 10;
}

// Offsets from the start of shared memory.
struct SharedPlan {
  int activations;
  int weights;
  int barriers;
  int total;
};

QGEMM_SHARED_PLAN_INLINE SharedPlan PlanShared(int bits, int tokens, int slots,
                                               int stage_bytes) {
  SharedPlan plan{};
  plan.activations = TableBytes(bits);
  plan.weights = plan.activations + slots * tokens * kTokenBytes;
  plan.barriers = plan.weights + slots * stage_bytes;
  plan.total = plan.barriers + slots * kBarrierBytes;
  return plan;
}

// Slots that fit.
QGEMM_SHARED_PLAN_INLINE int SlotsThatFit(int bits, int tokens,
                                          int stage_bytes) {
  return (kBlockSharedBytes - TableBytes(bits)) /
         (tokens * kTokenBytes + stage_bytes + kBarrierBytes);
}

}  // namespace qgemm::cuda

#undef QGEMM_SHARED_PLAN_INLINE

#endif  // QGEMM_KERNELS_CUDA_TUNING_SHARED_PLAN_H_
