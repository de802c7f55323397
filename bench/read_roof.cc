// SPDX-License-Identifier: Apache-2.0
//
// Sums a large buffer, each thread a part of its own, by vectors: words one by
// one would be bound by their additions. Prefetching helps some processors and
// hinders others, so both ways are timed.

#include "bench/read_roof.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/thread_pool.h"

namespace qgemm {
namespace {

constexpr int kPasses = 7;  // of each way to read
constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr int64_t kPrefetchBytes = 2048;  // as the microkernels do
constexpr int64_t kLineBytes = 64;

using Words = uint64_t __attribute__((vector_size(16)));

// A sum for each vector of a cache line, so that no addition waits for a load.
template <bool kPrefetch>
uint64_t Sum(const uint8_t* bytes, int64_t count) {
  Words sums[4] = {};
  for (int64_t i = 0; i + kLineBytes <= count; i += kLineBytes) {
    if constexpr (kPrefetch) __builtin_prefetch(bytes + i + kPrefetchBytes);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      Words words;
      std::memcpy(&words, bytes + i + 16 * j, sizeof(words));
      sums[j] += words;
    }
  }
  const Words sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return sum[0] + sum[1];
}

using Reader = uint64_t (*)(const uint8_t* bytes, int64_t count);

// The rates of some passes over the buffer, in 10^9 bytes a second.
ReadRoof Measure(Reader read, const cpu::AlignedMemory& memory, int64_t bytes,
                 cpu::ThreadPool& pool) {
  std::atomic<uint64_t> total{0};
  std::vector<double> rates;
  for (int pass = 0; pass < kPasses; ++pass) {
    const absl::Time start = absl::Now();
    pool.ParallelFor(bytes / kChunkBytes, [&](int64_t chunk) {
      total += read(memory.data() + chunk * kChunkBytes, kChunkBytes);
    });
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    const int64_t read_bytes = bytes / kChunkBytes * kChunkBytes;
    rates.push_back(read_bytes / seconds * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  return ReadRoof{rates.back(), rates[rates.size() / 2]};
}

}  // namespace

absl::StatusOr<ReadRoof> MeasureReadRoof(int threads, int64_t bytes) {
  ASSIGN_OR_RETURN(const cpu::AlignedMemory memory,
                   cpu::AlignedMemory::Allocate(bytes));
  // Touched, as untouched pages all read one page of zeros.
  std::memset(memory.data(), 1, bytes);
  cpu::ThreadPool pool(threads);
  const ReadRoof plain = Measure(Sum<false>, memory, bytes, pool);
  const ReadRoof prefetched = Measure(Sum<true>, memory, bytes, pool);
  return plain.gbps > prefetched.gbps ? plain : prefetched;
}

}  // namespace qgemm
