// SPDX-License-Identifier: Apache-2.0
//
// Source of random test data: a fresh seed for each test, printed, and the
// same again with --gtest_random_seed.

#ifndef QGEMM_TESTS_SUPPORT_SEEDS_H_
#define QGEMM_TESTS_SUPPORT_SEEDS_H_

#include <cstdint>
#include <iostream>
#include <random>

#include "gtest/gtest.h"

namespace qgemm {

using RandomGenerator = std::mt19937_64;

// A seed from 1 to 99999, printed: that of --gtest_random_seed, else fresh.
inline uint64_t FreshSeed() {
  const int32_t chosen = ::testing::GTEST_FLAG(random_seed);
  const uint64_t seed =
      chosen != 0 ? chosen : std::random_device()() % 99999 + 1;
  std::cout << "--gtest_random_seed=" << seed << std::endl;
  return seed;
}

// Uniform in [low, high], the same on every host.
inline int64_t RandomInt(int64_t low, int64_t high, RandomGenerator* random) {
  const uint64_t span = static_cast<uint64_t>(high - low) + 1;
  return low + static_cast<int64_t>((*random)() % span);
}

// Uniform in [-1, 1).
inline float RandomSigned(RandomGenerator* random) {
  return static_cast<float>(static_cast<int64_t>((*random)() >> 40)) *
             0x1p-23f -
         1.0f;
}

// Whichever of the elements.
template <typename Container>
auto RandomElement(const Container& container, RandomGenerator* random) {
  const int64_t last = static_cast<int64_t>(std::size(container)) - 1;
  return container[RandomInt(0, last, random)];
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_SEEDS_H_
