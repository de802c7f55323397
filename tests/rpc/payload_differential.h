// SPDX-License-Identifier: Apache-2.0
//
// ReadPayloadMessage beside Protobuf's parser on the same bytes.

#ifndef QGEMM_TESTS_RPC_PAYLOAD_DIFFERENTIAL_H_
#define QGEMM_TESTS_RPC_PAYLOAD_DIFFERENTIAL_H_

#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace qgemm {

// `bytes` in slices of `lengths`, the rest in one.
grpc::ByteBuffer Sliced(absl::string_view bytes,
                        const std::vector<size_t>& lengths);

// Names the difference between the two on a GemmRequest's bytes; empty if
// there is none.
std::string DifferenceOfParsers(absl::string_view bytes,
                                const std::vector<size_t>& lengths);

}  // namespace qgemm

#endif  // QGEMM_TESTS_RPC_PAYLOAD_DIFFERENTIAL_H_
