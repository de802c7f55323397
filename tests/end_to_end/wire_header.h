// SPDX-License-Identifier: Apache-2.0
//
// The test's own way from specs to messages; the server's way back is what is
// tested.

#ifndef QGEMM_TESTS_END_TO_END_WIRE_HEADER_H_
#define QGEMM_TESTS_END_TO_END_WIRE_HEADER_H_

#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/types.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

v1::FloatType ToWire(FloatType type);

// Sets the header's format field.
void SetFormat(const WeightsSpec& spec, v1::WeightsHeader* header);

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_WIRE_HEADER_H_
