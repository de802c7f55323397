// SPDX-License-Identifier: Apache-2.0
//
// Seeded values for weights and activations without a file; the same on every
// machine.

#ifndef QGEMM_CLIENT_CLI_RANDOM_VALUES_H_
#define QGEMM_CLIENT_CLI_RANDOM_VALUES_H_

#include <cstdint>
#include <vector>

namespace qgemm {

// Bell-shaped values of the given standard deviation: sums of four uniform
// ones, so that none is further out than 3.5 deviations.
std::vector<float> RandomValues(int64_t count, float deviation, uint64_t seed);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CLI_RANDOM_VALUES_H_
