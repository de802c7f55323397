// SPDX-License-Identifier: Apache-2.0

#include "base/memory_checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/support/seeds.h"

namespace qgemm {
namespace {

std::vector<uint8_t> RandomBytes(int64_t size, RandomGenerator* random) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((*random)());
  return bytes;
}

uint64_t Checksum(const std::vector<uint8_t>& bytes) {
  return MemoryChecksum(bytes.data(), static_cast<int64_t>(bytes.size()));
}

TEST(MemoryChecksumTest, IsTheSumOfItsWordsInAnyOrder) {
  RandomGenerator random(FreshSeed());
  const std::vector<uint8_t> bytes = RandomBytes(8 * 100, &random);
  uint64_t sum = 0;
  for (int i = 99; i >= 0; --i) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + 8 * i, 8);
    sum += ChecksumTerm(word, i);
  }
  EXPECT_EQ(Checksum(bytes), sum);
}

TEST(MemoryChecksumTest, EveryFlippedBitChangesIt) {
  RandomGenerator random(FreshSeed());
  std::vector<uint8_t> bytes = RandomBytes(131, &random);
  const uint64_t checksum = Checksum(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= 1 << bit % 8;
    EXPECT_NE(Checksum(bytes), checksum) << bit;
    bytes[bit / 8] ^= 1 << bit % 8;
  }
  EXPECT_EQ(Checksum(bytes), checksum);
}

TEST(MemoryChecksumTest, WordsThatChangePlacesChangeIt) {
  std::vector<uint8_t> bytes(64, 0);
  const uint64_t zeros = Checksum(bytes);
  bytes[0] = 1;
  const uint64_t first = Checksum(bytes);
  std::swap(bytes[0], bytes[8]);
  EXPECT_NE(first, zeros);
  EXPECT_NE(Checksum(bytes), first);
}

}  // namespace
}  // namespace qgemm
