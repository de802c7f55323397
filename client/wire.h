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

// A as gRPC sends it: copied once, or borrowed if options.a_released is set,
// which then runs when the last reference to the slice has gone.
grpc::Slice OperandToWire(const GemmOptions& options);

// The request as it travels; `operand` is from OperandToWire.
grpc::ByteBuffer ToWire(const GemmOptions& options, const grpc::Slice& operand);

// The request's fields without A.
v1::GemmRequest HeaderToWire(const GemmOptions& options);

// What comes before A in that message; options.a tells only its size.
grpc::Slice PrefixToWire(const GemmOptions& options);

// The field alone; it may follow any message without one.
grpc::Slice ClientIdToWire(const std::string& client_id);

// The tag and length that introduce field `a` of that message.
std::string PayloadPrefix(uint64_t bytes);

WeightsDescription FromWire(const v1::WeightsInfo& info);
ServerDescription FromWire(const v1::GetServerInfoResponse& response);
ServerTimings FromWire(const v1::Timings& timings);

// What an answer to `m` rows with `c_bytes` of `c_type` is, but for c itself.
// INTERNAL if the byte count fits no n.
absl::StatusOr<GemmResult> ResultOfSize(int64_t c_bytes, int64_t m,
                                        FloatType c_type);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_WIRE_H_
