// SPDX-License-Identifier: Apache-2.0
//
// The shape of a layer that a load test makes for itself.

#ifndef QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_SHAPE_H_
#define QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_SHAPE_H_

#include <cstdint>

namespace qgemm {

struct SyntheticShape {
  int64_t k = 0;  // input features
  int64_t n = 0;  // output features
};

inline bool operator==(const SyntheticShape& a, const SyntheticShape& b) {
  return a.k == b.k && a.n == b.n;
}

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_SHAPE_H_
