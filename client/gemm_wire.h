// SPDX-License-Identifier: Apache-2.0
//
// Multiplications to and from the messages of proto/qgemm/v1: the checks of a
// request before it is sent, the request as bytes, and the answer, which is
// read where it lies in gRPC's buffers.

#ifndef QGEMM_CLIENT_GEMM_WIRE_H_
#define QGEMM_CLIENT_GEMM_WIRE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "qgemm/gemm.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

v1::FloatType ToWire(FloatType type);
v1::Priority ToWire(RequestPriority priority);
v1::ComputeMode ToWire(ComputeMode mode);

// True if the request's `rounding` means something.
bool HasRounding(const GemmRequest& request);

// INVALID_ARGUMENT unless A has m rows, one or more, of whole elements.
absl::Status CheckOperand(const GemmRequest& request);

// A as gRPC sends it: copied once, or borrowed if request.a_released is set,
// which then runs when the last reference to the slice has gone.
grpc::Slice OperandToWire(const GemmRequest& request);

// The request as it travels; `operand` is from OperandToWire.
grpc::ByteBuffer ToWire(const GemmRequest& request, const grpc::Slice& operand);

// The request's fields without A.
v1::GemmRequest HeaderToWire(const GemmRequest& request);

// The bytes before A in that message; request.a tells only its size.
grpc::Slice PrefixToWire(const GemmRequest& request);

// The field alone; it may follow any message without one.
grpc::Slice ClientIdToWire(const std::string& client_id);

// The tag and length that introduce field `a` of that message.
std::string PayloadPrefix(uint64_t bytes);

Timings FromWire(const v1::Timings& timings);

// The facts of a request that its answer is read by.
struct ExpectedResult {
  explicit ExpectedResult(const GemmRequest& request)
      : m(request.m), c_type(request.result_type()), c(request.c) {}
  ExpectedResult() = default;

  int64_t m = 0;
  FloatType c_type = FloatType::kFloat16;
  absl::Span<uint8_t> c;  // memory for C; empty: none given
};

// The largest answer that memory is taken for before it comes.
inline constexpr int64_t kMaxReservedBytes = int64_t{1} << 30;

// The result whose C has `c_bytes`, before any of C has come.
// Errors: INTERNAL if the byte count fits no n, INVALID_ARGUMENT if it is not
// that of the memory given.
absl::StatusOr<GemmResult> ResultOfSize(int64_t c_bytes,
                                        const ExpectedResult& expected);

// Copies the bytes of C from `offset` on: into the memory given, else to the
// end of result->c.
void AppendPieces(absl::Span<const absl::string_view> pieces, int64_t offset,
                  const ExpectedResult& expected, GemmResult* result);

// A GemmResponse where it lies in a buffer.
struct AnswerView {
  Timings timings;
  // C [m, n], in order; borrowed from the buffer, or from `message` if that
  // has an unusual order of fields.
  std::vector<absl::string_view> c;
  v1::GemmResponse message;
};

// Overwrites `answer`; its memory is used again. INTERNAL if the bytes are no
// GemmResponse.
absl::Status ReadAnswer(grpc::ByteBuffer* buffer, AnswerView* answer);

// The answer as a result; C is copied once. Errors: those of ReadAnswer and
// ResultOfSize.
absl::StatusOr<GemmResult> ReadResult(grpc::ByteBuffer* buffer,
                                      const ExpectedResult& expected);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_GEMM_WIRE_H_
