// SPDX-License-Identifier: Apache-2.0
//
// Reads a GemmResponse where it lies in gRPC's buffers, without copying C.

#ifndef QGEMM_CLIENT_ANSWER_READER_H_
#define QGEMM_CLIENT_ANSWER_READER_H_

#include <grpcpp/support/byte_buffer.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/gemm.h"

namespace qgemm {

struct AnswerView {
  ServerTimings timings;
  // C [m, n], in order; borrowed from the buffer.
  std::vector<absl::string_view> c;
};

// Overwrites `answer`; its memory is used again. INTERNAL if the bytes are no
// GemmResponse.
absl::Status ReadAnswer(grpc::ByteBuffer* buffer, AnswerView* answer);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_ANSWER_READER_H_
