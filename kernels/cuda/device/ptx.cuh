// SPDX-License-Identifier: Apache-2.0
//
// One PTX instruction a function. Addresses of shared memory are 32-bit, in
// the shared window. What a chip before sm_90 lacks is spelled out with what
// it has, or is nothing where it is only a hint.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PTX_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PTX_CUH_

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace qgemm::cuda {

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// D = A * B + C of a 16x8 tile over 16 of K; fp32 sums.
template <typename T>
__device__ __forceinline__ void Mma16816(float (&d)[4], const uint32_t (&a)[4],
                                         uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void Mma16816<__half>(float (&d)[4],
                                                 const uint32_t (&a)[4],
                                                 uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void Mma16816<__nv_bfloat16>(float (&d)[4],
                                                        const uint32_t (&a)[4],
                                                        uint32_t b0,
                                                        uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The value, which the compiler would rather work out again at each use.
__device__ __forceinline__ int KeepInRegister(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// The lane, read again at each call.
__device__ __forceinline__ int ReadLane() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

__device__ __forceinline__ void BarrierInit(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count)
               : "memory");
}

// Makes initialised barriers visible to TMA.
__device__ __forceinline__ void BarrierInitFence() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ __forceinline__ void BarrierArrive(uint32_t barrier) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(
          barrier)
      : "memory");
}

// Arrives, and lets the phase end only after that many bytes of bulk copies.
__device__ __forceinline__ void BarrierArriveExpect(uint32_t barrier,
                                                    uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], "
      "%1; }" ::"r"(barrier),
      "r"(bytes)
      : "memory");
#else
  BarrierArrive(barrier);
#endif
}

__device__ __forceinline__ bool BarrierTryWait(uint32_t barrier,
                                               uint32_t parity) {
  uint32_t done;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; "
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
#else
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; "
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
#endif
  return done != 0;
}

__device__ __forceinline__ void BarrierWait(uint32_t barrier, uint32_t parity) {
  while (!BarrierTryWait(barrier, parity)) {
  }
}

// 16 bytes from global to shared memory, of which the first `valid` are read
// and the others zero.
__device__ __forceinline__ void CopyAsync16(uint32_t shared, const void* global,
                                            uint32_t valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared),
               "l"(global), "r"(valid)
               : "memory");
}

// The thread's copies so far arrive at the barrier when they are done.
__device__ __forceinline__ void CopyAsyncArrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier)
               : "memory");
}

// One contiguous copy by TMA; completes on the barrier.
__device__ __forceinline__ void CopyBulk(uint32_t shared, const void* global,
                                         uint32_t bytes, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
#endif
}

// The same of bytes that no other block reads: the L2 gives up their lines
// before those of code and activations.
__device__ __forceinline__ void CopyBulkOnce(uint32_t shared,
                                             const void* global, uint32_t bytes,
                                             uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1], %2, [%3], policy; }" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
#endif
}

// Lets the next kernel of the stream start where there is room.
__device__ __forceinline__ void LaunchDependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the kernel before in the stream is done and its writes seen.
__device__ __forceinline__ void GridDependencyWait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Orders this thread's accesses of global memory with those of TMA.
__device__ __forceinline__ void AsyncProxyFence() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

// The same where others, which are known to have come to an end, wrote or will
// read what this thread's copies by TMA read: it waits for no access.
__device__ __forceinline__ void AsyncGlobalFence() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}

// A counter in global memory, by which blocks of a launch wait for others. Who
// adds to it releases what the threads did that it met at a barrier before;
// who sees the sum acquires it.
__device__ __forceinline__ void ReleaseCount(unsigned* counter) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter)
               : "memory");
#endif
}
__device__ __forceinline__ void AwaitCount(const unsigned* counter,
                                           unsigned count) {
#if __CUDA_ARCH__ >= 900
  unsigned seen = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(seen)
                 : "l"(counter)
                 : "memory");
  } while (seen < count);
#endif
}

// Says that this thread has come so far; its writes are seen by those that
// wait for all threads of the cluster.
__device__ __forceinline__ void ClusterArrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void ClusterWait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The address of that place in the shared memory of a block of the cluster.
__device__ __forceinline__ uint32_t ClusterAddress(uint32_t shared, int rank) {
  uint32_t address = shared;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared), "r"(rank));
#endif
  return address;
}

// Eight bytes from that place in the shared memory of a block of the cluster.
__device__ __forceinline__ uint64_t LoadFromCluster(uint32_t shared, int rank) {
  uint64_t value = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.u64 %0, [%1];"
               : "=l"(value)
               : "r"(ClusterAddress(shared, rank))
               : "memory");
#endif
  return value;
}

// Writes to a block of the cluster, and counts the 16 bytes at the barrier
// there when they have come.
__device__ __forceinline__ void SendFloats(uint32_t cluster_address,
                                           const float4& values,
                                           uint32_t cluster_barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
      "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(cluster_address),
      "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w),
      "r"(cluster_barrier)
      : "memory");
#endif
}

// Writes a word to a block of the cluster, then arrives at a barrier there.
__device__ __forceinline__ void SendWord(uint32_t cluster_address, int word,
                                         uint32_t cluster_barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(cluster_address),
               "r"(word)
               : "memory");
  asm volatile(
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
          cluster_barrier)
      : "memory");
#endif
}
// Returns once that barrier's phase has ended; sees the word.
__device__ __forceinline__ void AwaitWord(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  uint32_t done = 0;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta"
        ".b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
#endif
}

// Two 8x8 matrices of 16-bit elements as a B operand; lane 8 i + r gives the
// address of row r of matrix i, i below 2.
__device__ __forceinline__ void LoadMatrices(uint32_t shared,
                                             uint32_t (&b)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(b[0]), "=r"(b[1])
               : "r"(shared)
               : "memory");
}

// Stores four 8x8 matrices of 16-bit elements, each transposed. A lane holds of
// a matrix two columns of a row as an operand's fragment does; lane 8 i + c
// gives the address of column c of matrix i.
__device__ __forceinline__ void StoreMatricesTransposed(
    uint32_t shared, const uint32_t (&values)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::
          "r"(shared),
      "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
      : "memory");
#endif
}

// One box of a tensor in two dimensions by TMA.
__device__ __forceinline__ void CopyTensor(uint32_t shared,
                                           const CUtensorMap& map, int32_t x,
                                           int32_t y, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
#endif
}

__device__ __forceinline__ void PrefetchTensorMap(const CUtensorMap& map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

// Gives registers of this group of four warps back, or takes more, up to
// kCount a thread. Only where the compiler compiles each group's part apart.
template <int kCount>
__device__ __forceinline__ void ShrinkRegisters() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}
template <int kCount>
__device__ __forceinline__ void GrowRegisters() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

// Waits for `threads` threads that name the same barrier, 1 to 15; or says
// that this one has come so far.
__device__ __forceinline__ void NamedBarrier(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
__device__ __forceinline__ void NamedBarrierArrive(int name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// Keeps the compiler from moving accesses of these registers
// over other instructions of this file.
template <int kCount>
__device__ __forceinline__ void PinRegisters(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void PinRegisters(uint32_t (&a)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(a[i])::"memory");
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PTX_CUH_
