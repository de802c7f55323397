// SPDX-License-Identifier: Apache-2.0
//
// Runs of programs to and from the messages of proto/qgemm/v1: the checks of a
// request before it is sent, the request as bytes, and the answer, which is
// read where it lies in gRPC's buffers.

#ifndef QGEMM_CLIENT_RUN_WIRE_H_
#define QGEMM_CLIENT_RUN_WIRE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "qgemm/program.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

// Bytes of all inputs together.
int64_t InputBytes(const RunRequest& request);

// INVALID_ARGUMENT unless there are m rows, one or more, of some bytes each.
absl::Status CheckInputs(const RunRequest& request);

// The inputs as gRPC sends them: copied once, or borrowed if
// request.inputs_released is set, which then runs when the last reference to
// the last slice has gone.
std::vector<grpc::Slice> InputsToWire(const RunRequest& request);

// The request's fields without the inputs.
v1::RunRequest HeaderToWire(const RunRequest& request);

// The request as it travels; `inputs` are from InputsToWire.
grpc::ByteBuffer ToWire(const RunRequest& request,
                        const std::vector<grpc::Slice>& inputs);

// The facts of a request that its answer is read by.
struct ExpectedOutputs {
  explicit ExpectedOutputs(const RunRequest& request)
      : m(request.m), outputs(request.outputs) {}

  int64_t m = 0;
  std::vector<absl::Span<uint8_t>> outputs;  // memory; empty: none given
};

// The result whose outputs have `output_bytes`, before any of them has come.
// Errors: INTERNAL if those are no m rows, INVALID_ARGUMENT if they are not the
// bytes of the memory given.
absl::StatusOr<RunResult> ResultOfSize(int64_t output_bytes,
                                       const ExpectedOutputs& expected);

// Copies the bytes of the outputs from `offset` on: into the memory given, else
// to the end of result->outputs.
void AppendPieces(absl::Span<const absl::string_view> pieces, int64_t offset,
                  const ExpectedOutputs& expected, RunResult* result);

// The answer as a result; the outputs are copied once, or the memory given
// stays as it is. Errors: INTERNAL if it does not parse, those of ResultOfSize.
absl::StatusOr<RunResult> ReadResult(grpc::ByteBuffer* buffer,
                                     const ExpectedOutputs& expected);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_RUN_WIRE_H_
