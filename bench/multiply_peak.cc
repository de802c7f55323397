// SPDX-License-Identifier: Apache-2.0
//
// Chains of multiply-adds, so many that none waits for another. A function for
// each kind of instruction, compiled for it alone; the caller knows that the
// processor has it.

#include "bench/multiply_peak.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/cpu/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qgemm {

#if defined(__x86_64__)

namespace {

constexpr int kChains = 10;
constexpr int kRounds = 200000;
constexpr int kPasses = 7;

// Hides the value of a vector from the compiler, which would compute chains of
// equal values once, and leave out those that nothing reads.
#define QGEMM_HIDE(vector) asm volatile("" : "+v"(vector))

__attribute__((target("avx2,fma"))) void FmaOfAvx2() {
  __m256 sums[kChains] = {};
#pragma GCC unroll 10
  for (__m256& sum : sums) QGEMM_HIDE(sum);
  const __m256 factor = _mm256_set1_ps(0.5f);
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 10
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
#pragma GCC unroll 10
  for (__m256& sum : sums) QGEMM_HIDE(sum);
}

__attribute__((target("avx512f"))) void FmaOfAvx512() {
  __m512 sums[kChains] = {};
#pragma GCC unroll 10
  for (__m512& sum : sums) QGEMM_HIDE(sum);
  const __m512 factor = _mm512_set1_ps(0.5f);
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 10
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
#pragma GCC unroll 10
  for (__m512& sum : sums) QGEMM_HIDE(sum);
}

// Products of bytes, added in pairs and then in 16 bits.
__attribute__((target("avx2"))) void BytesOfAvx2() {
  __m256i sums[kChains] = {};
#pragma GCC unroll 10
  for (__m256i& sum : sums) QGEMM_HIDE(sum);
  __m256i factor = _mm256_set1_epi8(1);
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 10
    for (__m256i& sum : sums) {
      QGEMM_HIDE(factor);  // or one product would serve all sums
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(factor, factor));
    }
  }
#pragma GCC unroll 10
  for (__m256i& sum : sums) QGEMM_HIDE(sum);
}

__attribute__((target("avx512f,avx512vnni"))) void BytesOfAvx512Vnni() {
  __m512i sums[kChains] = {};
#pragma GCC unroll 10
  for (__m512i& sum : sums) QGEMM_HIDE(sum);
  const __m512i factor = _mm512_set1_epi8(1);
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 10
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, factor, factor);
  }
#pragma GCC unroll 10
  for (__m512i& sum : sums) QGEMM_HIDE(sum);
}

// Pairs of bf16 by AVX512_BF16.
__attribute__((target("avx512f,avx512bf16"))) void PairsOfAvx512Bf16() {
  __m512 sums[kChains] = {};
#pragma GCC unroll 10
  for (__m512& sum : sums) QGEMM_HIDE(sum);
  const __m512bh factor = (__m512bh)_mm512_set1_epi16(0x3f00);
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 10
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, factor, factor);
  }
#pragma GCC unroll 10
  for (__m512& sum : sums) QGEMM_HIDE(sum);
}

// Tiles of 16 x 64 bytes: four sums of two by two operands, four bytes of K or
// two bf16.
template <bool kBytes>
void TilesOfAmx() {
  struct {
    uint8_t palette = 1;
    uint8_t reserved[15] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("ldtilecfg %0" : : "m"(config));
  asm volatile(
      "tilezero %tmm0\n tilezero %tmm1\n tilezero %tmm2\n tilezero %tmm3\n"
      "tilezero %tmm4\n tilezero %tmm5\n tilezero %tmm6\n tilezero %tmm7");
  for (int round = 0; round < kRounds / 16; ++round) {
    if constexpr (kBytes) {
      asm volatile(
          "tdpbssd %tmm6, %tmm4, %tmm0\n tdpbssd %tmm7, %tmm4, %tmm1\n"
          "tdpbssd %tmm6, %tmm5, %tmm2\n tdpbssd %tmm7, %tmm5, %tmm3");
    } else {
      asm volatile(
          "tdpbf16ps %tmm6, %tmm4, %tmm0\n tdpbf16ps %tmm7, %tmm4, %tmm1\n"
          "tdpbf16ps %tmm6, %tmm5, %tmm2\n tdpbf16ps %tmm7, %tmm5, %tmm3");
    }
  }
  asm volatile("tilerelease");
}

// The best of some passes, in 10^9 operations a second; a call of `multiply`
// does `multiply_adds` a thread.
double BestRate(cpu::ThreadPool& pool, void (*multiply)(),
                double multiply_adds) {
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const absl::Time start = absl::Now();
    pool.ParallelFor(pool.threads(), [&](int64_t) { multiply(); });
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    best = std::max(best, 2 * multiply_adds * pool.threads() / seconds * 1e-9);
  }
  return best;
}

}  // namespace

std::optional<MultiplyPeaks> MeasureMultiplyPeaks(cpu::CpuIsa isa,
                                                  int threads) {
  if (isa == cpu::CpuIsa::kScalar) return std::nullopt;
  cpu::ThreadPool pool(threads);
  const double chained = double{kChains} * kRounds;
  MultiplyPeaks peaks;
  const bool wide = isa != cpu::CpuIsa::kAvx2;
  peaks.fp32_gflops = wide ? BestRate(pool, FmaOfAvx512, 16 * chained)
                           : BestRate(pool, FmaOfAvx2, 8 * chained);
  const bool vnni = wide && isa != cpu::CpuIsa::kAvx512;
  peaks.int8_gops = vnni ? BestRate(pool, BytesOfAvx512Vnni, 64 * chained)
                         : BestRate(pool, BytesOfAvx2, 32 * chained);
  if (isa == cpu::CpuIsa::kAvx512Bf16) {
    peaks.bf16_gflops = BestRate(pool, PairsOfAvx512Bf16, 32 * chained);
  }
  if (isa == cpu::CpuIsa::kAmx) {
    peaks.splits_fp16 = true;
    constexpr double kTilePairs = 4.0 * 16 * 16 * 32 * kRounds / 16;
    peaks.bf16_gflops = BestRate(pool, TilesOfAmx<false>, kTilePairs);
    peaks.int8_gops = BestRate(pool, TilesOfAmx<true>, 2 * kTilePairs);
  }
  return peaks;
}

#else

std::optional<MultiplyPeaks> MeasureMultiplyPeaks(cpu::CpuIsa, int) {
  return std::nullopt;
}

#endif

}  // namespace qgemm
