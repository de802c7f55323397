// SPDX-License-Identifier: Apache-2.0
//
// The library's values to and from the messages of proto/qgemm/v1.

#ifndef QGEMM_CLIENT_WIRE_H_
#define QGEMM_CLIENT_WIRE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/gemm.h"
#include "client/load.h"
#include "client/server_description.h"
#include "kernels/formats/weights_spec.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

// n, k, format, bias and byte count of a valid spec.
v1::WeightsHeader ToWire(const WeightsSpec& spec);
v1::Section ToWire(Section section);

// The request as it travels. A is copied once, straight to where gRPC sends
// it from.
grpc::ByteBuffer ToWire(const GemmOptions& options);

// What comes before A in that message; options.a tells only its size.
grpc::Slice PrefixToWire(const GemmOptions& options);

// The tag and length that introduce field `a` of that message.
std::string PayloadPrefix(uint64_t bytes);

WeightsDescription FromWire(const v1::WeightsInfo& info);
ServerDescription FromWire(const v1::GetServerInfoResponse& response);
ServerTimings FromWire(const v1::Timings& timings);

// The answer to `m` rows with results of `c_type`. Takes the result out of
// `response`. INTERNAL if the byte count fits no n.
absl::StatusOr<GemmResult> FromWire(v1::GemmResponse* response, int64_t m,
                                    FloatType c_type);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_WIRE_H_
