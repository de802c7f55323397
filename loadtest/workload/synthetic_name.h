// SPDX-License-Identifier: Apache-2.0
//
// What a synthetic layer is called on the server.

#ifndef QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_NAME_H_
#define QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_NAME_H_

#include <cstdint>
#include <string>

#include "loadtest/workload/synthetic_shape.h"

namespace qgemm {

// Layer number `index` of the base layer that format, shape and seed decide.
struct SyntheticLayer {
  std::string format;  // of MakeRandomWeights
  SyntheticShape shape;
  uint64_t seed = 1;
  int64_t index = 0;
};

// "loadtest/<format>/<K>x<N>/<seed>/<index>": equal layers have equal names,
// in every run.
std::string SyntheticName(const SyntheticLayer& layer);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_NAME_H_
