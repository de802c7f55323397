// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that a seed decides, the same on every machine and with every
// standard library: a hash for any order, a stream for one after the other.

#ifndef QGEMM_LOADTEST_SCHEDULE_RANDOM_BITS_H_
#define QGEMM_LOADTEST_SCHEDULE_RANDOM_BITS_H_

#include <cstdint>

namespace qgemm::loadtest {

// A bijection of 64 bits whose outputs look independent of each other: the
// generator of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom
// Number Generators, 2014; constants by Stafford, Mix13), one step from
// `value`.
constexpr uint64_t MixBits(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Uniform in [0, 1), in steps of 2^-53.
constexpr double UnitInterval(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// Uniform in (0, 1), the middles of 2^52 equal steps: fit for a logarithm.
constexpr double OpenUnitInterval(uint64_t bits) {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

// Uniform in 0..count-1, to within count / 2^64. `count` is above 0.
constexpr uint64_t BelowCount(uint64_t bits, uint64_t count) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * count) >>
                               64);
}

// xoshiro256++ 1.0 (Blackman, Vigna: Scrambled Linear Pseudorandom Number
// Generators, 2021), its state filled by splitmix64 as they advise. Not
// thread-safe.
class RandomBits {
 public:
  explicit constexpr RandomBits(uint64_t seed) {
    for (uint64_t& word : state_) {
      word = MixBits(seed);
      seed += 0x9e3779b97f4a7c15;
    }
  }

  constexpr uint64_t Next() {
    const uint64_t result = Rotate(state_[0] + state_[3], 23) + state_[0];
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }

 private:
  static constexpr uint64_t Rotate(uint64_t value, int by) {
    return (value << by) | (value >> (64 - by));
  }

  uint64_t state_[4] = {};
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_SCHEDULE_RANDOM_BITS_H_
