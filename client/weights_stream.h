// SPDX-License-Identifier: Apache-2.0
//
// Uploads held in memory as streams, and the id of a stream.

#ifndef QGEMM_CLIENT_WEIGHTS_STREAM_H_
#define QGEMM_CLIENT_WEIGHTS_STREAM_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/sha256.h"
#include "qgemm/weights.h"

namespace qgemm {

// OK, or INVALID_ARGUMENT: the spec is not one that any server takes, so
// that its sections have no sizes.
absl::Status CheckSpec(const WeightsSpec& spec);

// Streams over memory that is borrowed as long as the stream is used; both
// rewind. Errors: INVALID_ARGUMENT (spec, or byte counts that do not fit it).
absl::StatusOr<WeightsStream> StreamOf(const EncodedWeights& weights);
absl::StatusOr<WeightsStream> StreamOf(const DenseUpload& dense);

// The bytes [0, buffer.size()) that come next, however `read` cuts them.
// Errors: the stream's; INTERNAL if it breaks its contract.
absl::Status ReadFully(const WeightsStream& stream, absl::Span<uint8_t> buffer);

// Reads a stream of a valid spec to its end and rewinds it.
absl::StatusOr<Sha256Digest> HashOf(const WeightsStream& stream);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_WEIGHTS_STREAM_H_
