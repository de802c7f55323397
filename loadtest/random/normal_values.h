// SPDX-License-Identifier: Apache-2.0
//
// Normal values by the hundred million a second, for operands: good enough for
// data to multiply, too coarse for statistics of rare events.

#ifndef QGEMM_LOADTEST_RANDOM_NORMAL_VALUES_H_
#define QGEMM_LOADTEST_RANDOM_NORMAL_VALUES_H_

#include <cstdint>

#include "absl/types/span.h"
#include "loadtest/random/random_bits.h"

namespace qgemm {

// Independent values, each one of 65536 with equal probability: the quantiles
// (i + 1/2) / 65536 of the standard normal distribution. Their mean is 0, their
// standard deviation 1 to within 10^-4, and none is beyond 4.4. Not
// thread-safe.
class NormalValues {
 public:
  explicit NormalValues(uint64_t seed) : random_(seed) {}

  // Overwrites `values` with the next ones, times `deviation`.
  void Fill(float deviation, absl::Span<float> values);

 private:
  RandomBits random_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_RANDOM_NORMAL_VALUES_H_
