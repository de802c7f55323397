// SPDX-License-Identifier: Apache-2.0
//
// Half conversions in portable C++.

#include "base/float16.h"
#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {
namespace {

void FromHalf(const uint16_t* halves, int64_t count, float* floats) {
  for (int64_t i = 0; i < count; ++i) floats[i] = Float16ToFloat(halves[i]);
}

void ToHalf(const float* floats, int64_t count, uint16_t* halves) {
  for (int64_t i = 0; i < count; ++i) halves[i] = FloatToFloat16(floats[i]);
}

}  // namespace

HalfConversions ScalarHalfConversions() { return {FromHalf, ToHalf}; }

}  // namespace qgemm::cpu
