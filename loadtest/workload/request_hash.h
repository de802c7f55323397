// SPDX-License-Identifier: Apache-2.0
//
// The random bits of a request, from the numbers that it has.

#ifndef QGEMM_LOADTEST_WORKLOAD_REQUEST_HASH_H_
#define QGEMM_LOADTEST_WORKLOAD_REQUEST_HASH_H_

#include <cstdint>

#include "loadtest/random/random_bits.h"

namespace qgemm {

// What bits are for; each purpose has bits of its own.
enum class HashPurpose : uint64_t {
  kLayer = 1,
  kWalkStart,
  kRowClass,
  kInput,
};

// Bits for one request, independent of those of other requests, seeds and
// purposes.
constexpr uint64_t HashRequest(uint64_t seed, HashPurpose purpose,
                               int64_t client, int64_t sequence) {
  uint64_t hash = MixBits(seed ^ (static_cast<uint64_t>(purpose) << 56));
  hash = MixBits(hash ^ static_cast<uint64_t>(client));
  return MixBits(hash ^ static_cast<uint64_t>(sequence));
}

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_REQUEST_HASH_H_
