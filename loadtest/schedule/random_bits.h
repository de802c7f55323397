// SPDX-License-Identifier: Apache-2.0
//
// Random numbers by a hash: draws of one seed in any order, on any thread.

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

// Uniform in 0..count-1, to within count / 2^64. `count` is above 0.
constexpr uint64_t BelowCount(uint64_t bits, uint64_t count) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * count) >>
                               64);
}

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_SCHEDULE_RANDOM_BITS_H_
