// SPDX-License-Identifier: Apache-2.0
//
// Weights and server descriptions to and from the messages of proto/qgemm/v1.

#ifndef QGEMM_CLIENT_WEIGHTS_WIRE_H_
#define QGEMM_CLIENT_WEIGHTS_WIRE_H_

#include "kernels/formats/weights_spec.h"
#include "qgemm/server_info.h"
#include "qgemm/v1/qgemm.pb.h"
#include "qgemm/weights.h"

namespace qgemm {

// Shape, format, bias and byte count of a valid spec.
v1::WeightsHeader ToWire(const WeightsSpec& spec);
v1::Section ToWire(Section section);

WeightsInfo FromWire(const v1::WeightsInfo& info);
ServerInfo FromWire(const v1::GetServerInfoResponse& response);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_WEIGHTS_WIRE_H_
