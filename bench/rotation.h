// SPDX-License-Identifier: Apache-2.0
//
// Number of copies of a layer that launches on a GPU rotate through. Pure.

#ifndef QGEMM_BENCH_ROTATION_H_
#define QGEMM_BENCH_ROTATION_H_

#include <cstdint>

namespace qgemm {

// Copies of `copy_bytes` that make `total_bytes`: at least 20, at most 1024.
int64_t CopiesFor(int64_t copy_bytes, int64_t total_bytes);

// Launches of a replay, at least, so that what they read of `copies` copies
// would fill a cache of `cache_bytes` twice; not more than there are copies.
int64_t LeastLaunches(int64_t copy_bytes, int64_t cache_bytes, int64_t copies);

}  // namespace qgemm

#endif  // QGEMM_BENCH_ROTATION_H_
