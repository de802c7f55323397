// SPDX-License-Identifier: Apache-2.0
//
// One PTX instruction a function. Addresses of shared memory are 32-bit, in
// the shared window. What a chip before sm_90 lacks is spelled out with what
// it has, or is nothing where it is only a hint.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PTX_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PTX_CUH_

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

__device__ __forceinline__ void BarrierInit(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count)
               : "memory");
}

// Makes initialised barriers visible to the copy engine.
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

// Lets the phase end only after that many more bytes, without arriving.
__device__ __forceinline__ void BarrierExpect(uint32_t barrier,
                                              uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
#endif
}

__device__ __forceinline__ void StoreSharedZeros(uint32_t shared) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(shared), "r"(0)
               : "memory");
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

// One contiguous copy by the copy engine; completes on the barrier.
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

// Lets the next kernel of the stream start where there is room.
__device__ __forceinline__ void AllowNextKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the kernel before in the stream is done and its writes seen.
__device__ __forceinline__ void WaitForPreviousKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void ClusterSync() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
#endif
}

// The float at that place in the shared memory of a block of the cluster.
__device__ __forceinline__ float LoadClusterFloat(uint32_t shared, int rank) {
  float value = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %1, %2; "
      "ld.shared::cluster.f32 %0, [remote]; }"
      : "=f"(value)
      : "r"(shared), "r"(rank)
      : "memory");
#endif
  return value;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PTX_CUH_
