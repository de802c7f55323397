// SPDX-License-Identifier: Apache-2.0
//
// Reads a GemmResponse where it lies in gRPC's buffers, without copying C.

#ifndef QGEMM_CLIENT_ANSWER_READER_H_
#define QGEMM_CLIENT_ANSWER_READER_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/gemm.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

struct AnswerView {
  ServerTimings timings;
  // C [m, n], in order; borrowed from the buffer, or from `message` if that
  // is unusual.
  std::vector<absl::string_view> c;
  v1::GemmResponse message;
};

// Overwrites `answer`; its memory is used again. INTERNAL if the bytes are no
// GemmResponse.
absl::Status ReadAnswer(grpc::ByteBuffer* buffer, AnswerView* answer);

// The answer to `m` rows with results of `c_type`; C is copied once. INTERNAL
// if the bytes are none.
absl::StatusOr<GemmResult> ReadResult(grpc::ByteBuffer* buffer, int64_t m,
                                      FloatType c_type);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_ANSWER_READER_H_
