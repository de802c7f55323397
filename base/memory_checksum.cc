// SPDX-License-Identifier: Apache-2.0

#include "base/memory_checksum.h"

#include <cstring>

namespace qgemm {

uint64_t MemoryChecksum(const uint8_t* data, int64_t size_bytes) {
  const uint64_t words = static_cast<uint64_t>(size_bytes) / sizeof(uint64_t);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, data + i * sizeof(word), sizeof(word));
    sum += ChecksumTerm(word, i);
  }
  const size_t rest_bytes = size_bytes % sizeof(uint64_t);
  if (rest_bytes > 0) {
    uint64_t word = 0;
    std::memcpy(&word, data + words * sizeof(word), rest_bytes);
    sum += ChecksumTerm(word, words);
  }
  return sum;
}

}  // namespace qgemm
