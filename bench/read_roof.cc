// SPDX-License-Identifier: Apache-2.0
//
// Sums a large buffer, each thread a part of its own.

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

constexpr int kPasses = 11;
constexpr int64_t kChunkBytes = int64_t{1} << 20;

// Four sums, so that no addition waits for a load.
uint64_t Sum(const uint8_t* bytes, int64_t count) {
  uint64_t sums[4] = {0, 0, 0, 0};
  for (int64_t i = 0; i + 32 <= count; i += 32) {
    uint64_t words[4];
    std::memcpy(words, bytes + i, sizeof(words));
    __builtin_prefetch(bytes + i + 2048);
    for (int j = 0; j < 4; ++j) sums[j] += words[j];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace

absl::StatusOr<ReadRoof> MeasureReadRoof(int threads, int64_t bytes) {
  ASSIGN_OR_RETURN(const cpu::AlignedMemory memory,
                   cpu::AlignedMemory::Allocate(bytes));
  // Touched, as untouched pages all read one page of zeros.
  std::memset(memory.data(), 1, bytes);
  cpu::ThreadPool pool(threads);
  std::atomic<uint64_t> total{0};
  std::vector<double> rates;
  for (int pass = 0; pass < kPasses; ++pass) {
    const absl::Time start = absl::Now();
    pool.ParallelFor(bytes / kChunkBytes, [&](int64_t chunk) {
      total += Sum(memory.data() + chunk * kChunkBytes, kChunkBytes);
    });
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    const int64_t read_bytes = bytes / kChunkBytes * kChunkBytes;
    rates.push_back(read_bytes / seconds * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  return ReadRoof{rates.back(), rates[rates.size() / 2]};
}

}  // namespace qgemm
