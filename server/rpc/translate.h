// SPDX-License-Identifier: Apache-2.0
//
// Messages to the server's own types and back, with every check that a message
// alone allows. Checks that need weights or a backend are in
// gemm_request_builder.h and server/weights.

#ifndef QGEMM_SERVER_RPC_TRANSLATE_H_
#define QGEMM_SERVER_RPC_TRANSLATE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/types.h"
#include "kernels/programs/program.h"
#include "qgemm/v1/qgemm.pb.h"
#include "server/scheduling/gemm_request.h"
#include "server/weights/upload_session.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// A count from the wire as int64. INVALID_ARGUMENT names `field`, the value
// and `limit` if it is above that.
absl::StatusOr<int64_t> CountFromWire(absl::string_view field, uint64_t value,
                                      int64_t limit);

// INVALID_ARGUMENT names `field` if the type is not set or does not exist.
absl::StatusOr<FloatType> ToFloatType(absl::string_view field,
                                      v1::FloatType type);

// The header with its defaults filled in. Errors: INVALID_ARGUMENT for an enum
// value that does not exist or does not apply, a count beyond the limits, an id
// that is not 32 bytes, no format.
absl::StatusOr<UploadHeader> ToUploadHeader(const v1::WeightsHeader& header,
                                            const WeightsLimits& limits);

// The chunk borrows the message's bytes.
absl::StatusOr<UploadChunk> ToUploadChunk(const v1::WeightsChunk& chunk);

// Types, mode and rounding of a request, defaults filled in.
absl::StatusOr<MatmulSignature> ToSignature(const v1::GemmRequest& request);

absl::StatusOr<Priority> ToPriority(v1::Priority priority);

// OK for an empty id, else INVALID_ARGUMENT unless it is
// [A-Za-z0-9._/-]{1,128}.
absl::Status CheckClientId(const std::string& client_id);

// Bytes of A in all messages of a stream's request, of which `received_bytes`
// came with the first one.
uint64_t OperandBytes(const v1::GemmStreamOpen& open, int64_t received_bytes);

// Checks the fields beside `gemm`. Errors: INVALID_ARGUMENT;
// RESOURCE_EXHAUSTED for an operand beyond the limit.
absl::Status CheckStreamOpen(const v1::GemmStreamOpen& open,
                             int64_t received_bytes, int64_t max_operand_bytes);

// InfiniteFuture for a timeout of 0.
absl::Time DeadlineAfter(absl::Time arrival, uint64_t timeout_ns);

// The delay after which a request may succeed that lacked memory or a place in
// the queue: a few launches if the status is RESOURCE_EXHAUSTED, else zero.
absl::Duration RetryDelayFor(const absl::Status& status);

// The program with its defaults filled in. Whether it makes sense is left to
// CheckProgram; counts beyond int64 become the largest int64, which that
// refuses. Errors:
//   UNIMPLEMENTED     a later revision, or a field that this server does not
//                     know, at any depth: it would be dropped silently
//   INVALID_ARGUMENT  an enumerator that does not exist, an op without a kind,
//                     a type that neither a value nor the program names
absl::StatusOr<Program> ToProgram(const v1::Program& message);

void ToMessage(const NamedWeights& listing, v1::WeightsInfo* info);
void ToMessage(const GemmTimings& timings, absl::Duration total,
               v1::Timings* message);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_TRANSLATE_H_
