// SPDX-License-Identifier: Apache-2.0
//
// Hopper's matrix multiply by four warps together: A from registers, B from
// shared memory, asynchronous. Only in code for sm_90a.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WGMMA_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WGMMA_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

// nvcc defines this for targets with architecture-specific instructions.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define QGEMM_HAS_WGMMA 1
#else
#define QGEMM_HAS_WGMMA 0
#endif

namespace qgemm::cuda {

#if QGEMM_HAS_WGMMA

// A matrix in shared memory. Added to as 64 bits, of which the upper half never
// changes: of two halves put together the compiler moves both each time.
struct SharedDescriptor {
  uint64_t value;

  // The matrix 16 * units bytes further on.
  __device__ __forceinline__ SharedDescriptor Advanced(uint32_t units) const {
    return {value + units};
  }
  // The same, for units that the compiler does not know, where it would widen
  // them anew each time.
  __device__ __forceinline__ SharedDescriptor At(uint32_t units) const {
    constexpr uint64_t kLow = 0xffffffff;
    return {(value & ~kLow) | (static_cast<uint32_t>(value) + units)};
  }
};

// B of N rows of A by 64 columns, 128 bytes a row of A, in the 128-byte
// swizzle; 1024-byte aligned. Advance by 2 for every 16 columns.
__device__ __forceinline__ SharedDescriptor
SwizzledDescriptor(uint32_t shared) {
  constexpr uint32_t kSwizzle128 = uint32_t{1} << 30;
  constexpr uint32_t kGroupStride = 1024 >> 4;
  constexpr uint64_t kFixed =
      uint64_t{kSwizzle128 | kGroupStride} << 32 | uint32_t{1} << 16;
  return {kFixed | shared >> 4};
}

// Orders register accesses before the multiplications that follow.
__device__ __forceinline__ void WgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending committed groups are not done.
template <int kPending>
__device__ __forceinline__ void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Inline assembly takes no list of registers, so that the operands %0 to %127
// and what they stand for are spelled out, in runs that the sizes share.
#define QGEMM_REGISTERS_4 "%0, %1, %2, %3"
#define QGEMM_SUMS_4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define QGEMM_REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define QGEMM_SUMS_8                                                      \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), \
      "+f"(d[6]), "+f"(d[7])
#define QGEMM_REGISTERS_12 \
  QGEMM_REGISTERS_8        \
  ", "                     \
  "%8, %9, %10, %11"
#define QGEMM_SUMS_12 \
  QGEMM_SUMS_8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define QGEMM_REGISTERS_16 \
  QGEMM_REGISTERS_8        \
  ", "                     \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define QGEMM_SUMS_16                                                          \
  QGEMM_SUMS_8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), \
      "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define QGEMM_REGISTERS_24 \
  QGEMM_REGISTERS_16       \
  ", "                     \
  "%16, %17, %18, %19, %20, %21, %22, %23"
#define QGEMM_SUMS_24                                                \
  QGEMM_SUMS_16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), \
      "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define QGEMM_REGISTERS_32                   \
  QGEMM_REGISTERS_16                         \
  ", "                                       \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define QGEMM_SUMS_32                                                  \
  QGEMM_SUMS_16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),   \
      "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), \
      "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), \
      "+f"(d[30]), "+f"(d[31])
#define QGEMM_REGISTERS_48                   \
  QGEMM_REGISTERS_32                         \
  ", "                                       \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47"
#define QGEMM_SUMS_48                                                  \
  QGEMM_SUMS_32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),   \
      "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), \
      "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), \
      "+f"(d[46]), "+f"(d[47])
#define QGEMM_REGISTERS_64                   \
  QGEMM_REGISTERS_32                         \
  ", "                                       \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define QGEMM_SUMS_64                                                  \
  QGEMM_SUMS_32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),   \
      "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), \
      "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), \
      "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), \
      "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
      "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), \
      "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define QGEMM_REGISTERS_96                   \
  QGEMM_REGISTERS_64                         \
  ", "                                       \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define QGEMM_SUMS_96                                                  \
  QGEMM_SUMS_64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),   \
      "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), \
      "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), \
      "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), \
      "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
      "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), \
      "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define QGEMM_REGISTERS_128                          \
  QGEMM_REGISTERS_96                                 \
  ", "                                               \
  "%96, %97, %98, %99, %100, %101, %102, %103, "     \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define QGEMM_SUMS_128                                                      \
  QGEMM_SUMS_96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),        \
      "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), \
      "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), \
      "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), \
      "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
      "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), \
      "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// D = A * B (+ D if add) of 64 rows of W, kTileM rows of A and 16 columns.
// `add` is known at compile time, or not: of an operand that only happens to be
// constant the compiler makes more instructions.
template <typename T, int kTileM>
struct Wgmma;

// A thread has TILE_M / 2 sums of D; the other operands are numbered behind
// them.
#define QGEMM_WGMMA(TYPE, TILE_M, SUMS, A0, A1, A2, A3, B, ADD, KIND, VALUE) \
  asm volatile(                                                              \
      "{ .reg .pred p; setp.ne.b32 p, %" #ADD                                \
      ", 0; wgmma.mma_async.sync.aligned.m64n" #TILE_M "k16.f32." TYPE       \
      "." TYPE " {" QGEMM_REGISTERS_##SUMS                                   \
      "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p, 1, 1, 0; }"  \
      : QGEMM_SUMS_##SUMS                                                    \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), KIND(VALUE))
#define QGEMM_DEFINE_WGMMA(T, TYPE, TILE_M, SUMS, A0, A1, A2, A3, B, ADD) \
  template <>                                                             \
  struct Wgmma<T, TILE_M> {                                               \
    template <bool kAdd>                                                  \
    static __device__ __forceinline__ void Run(float (&d)[SUMS],          \
                                               const uint32_t (&a)[4],    \
                                               uint64_t b) {              \
      QGEMM_WGMMA(TYPE, TILE_M, SUMS, A0, A1, A2, A3, B, ADD, "n",        \
                  kAdd ? 1 : 0);                                          \
    }                                                                     \
    static __device__ __forceinline__ void Run(float (&d)[SUMS],          \
                                               const uint32_t (&a)[4],    \
                                               uint64_t b, int add) {     \
      QGEMM_WGMMA(TYPE, TILE_M, SUMS, A0, A1, A2, A3, B, ADD, "r", add);  \
    }                                                                     \
  }
#define QGEMM_DEFINE_WGMMAS(TILE_M, SUMS, A0, A1, A2, A3, B, ADD)            \
  QGEMM_DEFINE_WGMMA(__half, "f16", TILE_M, SUMS, A0, A1, A2, A3, B, ADD);   \
  QGEMM_DEFINE_WGMMA(__nv_bfloat16, "bf16", TILE_M, SUMS, A0, A1, A2, A3, B, \
                     ADD)

QGEMM_DEFINE_WGMMAS(8, 4, 4, 5, 6, 7, 8, 9);
QGEMM_DEFINE_WGMMAS(16, 8, 8, 9, 10, 11, 12, 13);
QGEMM_DEFINE_WGMMAS(24, 12, 12, 13, 14, 15, 16, 17);
QGEMM_DEFINE_WGMMAS(32, 16, 16, 17, 18, 19, 20, 21);
QGEMM_DEFINE_WGMMAS(48, 24, 24, 25, 26, 27, 28, 29);
QGEMM_DEFINE_WGMMAS(64, 32, 32, 33, 34, 35, 36, 37);
QGEMM_DEFINE_WGMMAS(96, 48, 48, 49, 50, 51, 52, 53);
QGEMM_DEFINE_WGMMAS(128, 64, 64, 65, 66, 67, 68, 69);
QGEMM_DEFINE_WGMMAS(192, 96, 96, 97, 98, 99, 100, 101);
QGEMM_DEFINE_WGMMAS(256, 128, 128, 129, 130, 131, 132, 133);

#undef QGEMM_DEFINE_WGMMAS
#undef QGEMM_DEFINE_WGMMA
#undef QGEMM_WGMMA
#undef QGEMM_REGISTERS_4
#undef QGEMM_SUMS_4
#undef QGEMM_REGISTERS_8
#undef QGEMM_SUMS_8
#undef QGEMM_REGISTERS_12
#undef QGEMM_SUMS_12
#undef QGEMM_REGISTERS_16
#undef QGEMM_SUMS_16
#undef QGEMM_REGISTERS_24
#undef QGEMM_SUMS_24
#undef QGEMM_REGISTERS_32
#undef QGEMM_SUMS_32
#undef QGEMM_REGISTERS_48
#undef QGEMM_SUMS_48
#undef QGEMM_REGISTERS_64
#undef QGEMM_SUMS_64
#undef QGEMM_REGISTERS_96
#undef QGEMM_SUMS_96
#undef QGEMM_REGISTERS_128
#undef QGEMM_SUMS_128

#endif  // QGEMM_HAS_WGMMA

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WGMMA_CUH_
