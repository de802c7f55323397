// SPDX-License-Identifier: Apache-2.0
//
// Weights as a caller sees them: sources of an upload, its options and result,
// and the description of what a server holds. EncodeWeights and EncodedWeights
// come with it.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_WEIGHTS_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/formats/weights_encoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/types.h"
#include "qgemm/float_types.h"

namespace qgemm {

// Weights that are produced while they are sent. The functions are called
// from the thread that called LoadWeights.
struct WeightsStream {
  WeightsSpec spec;
  // Writes the next bytes of the upload at the start of `buffer` and returns
  // their count, 1 to buffer.size(). The upload is the sections of
  // SectionsOf(spec), in order, one after the other without gaps. An error
  // ends the load with that status.
  std::function<absl::StatusOr<int64_t>(absl::Span<uint8_t> buffer)> read;
  // Starts again from the first byte. With it the stream is read twice, once
  // for its id and once for all servers, so that a server which holds the
  // weights answers without taking them again, and the load can be retried.
  // Empty: one pass, no id, no retries.
  std::function<absl::Status()> rewind;
};

// A dense matrix for the server to keep or quantize. Spans are borrowed for
// the call.
struct DenseUpload {
  int64_t n = 0;  // output features
  int64_t k = 0;  // input features
  FloatType type = FloatType::kFloat32;
  // [n, k] elements of `type`, row-major, little-endian.
  absl::Span<const uint8_t> bytes;
  absl::Span<const float> bias;  // empty, or [n]

  // The format that the server keeps.
  QuantizeTarget target = QuantizeTarget::kNone;
  int bits = 4;              // kKbit: 2 to 5
  int64_t group_size = 128;  // kInt4: 32, 64, 128, or 0 for all of k
  bool asymmetric = false;   // kInt4
  // kNone: kFloat16 or kBFloat16.
  FloatType resident_type = FloatType::kBFloat16;

  // Set `bytes` and `type` from a span of elements.
  void SetValues(absl::Span<const float> values);
  void SetValues(absl::Span<const Half> values);
  void SetValues(absl::Span<const BFloat16> values);
};

// The spec that a dense upload travels under.
WeightsSpec SpecOf(const DenseUpload& dense);

struct LoadProgress {
  // Handed to the connections, or passed over; but for a chunk.
  int64_t sent_bytes = 0;
  int64_t total_bytes = 0;  // of the upload
};

struct LoadOptions {
  // [A-Za-z0-9._/-]{1,128}; bound to the weights when the upload ends. Empty:
  // reachable by id alone.
  std::string name;
  // Conditions on the name, of which one may be set. A name that is bound to
  // these weights already satisfies both.
  bool create_only = false;  // bound to nothing, else ALREADY_EXISTS
  // Bound to the weights of this id, else FAILED_PRECONDITION. Empty: none.
  std::string if_match;
  absl::Time deadline = absl::InfiniteFuture();
  int64_t chunk_bytes = int64_t{512} << 10;  // of one message
  // Asks the server first for what it has of this upload, which another process
  // began and was cut off. A retry asks always. Needs a stream with `rewind`.
  bool resume = false;
  // Called before the first chunk and after each; runs on the thread that
  // called LoadWeights. Several servers are sent each chunk at once. A retry
  // starts again from zero, and runs over what the server has.
  std::function<void(const LoadProgress&)> progress;
};

// One layer that the server holds.
struct WeightsInfo {
  std::string id;                  // 64 hexadecimal digits
  std::vector<std::string> names;  // sorted; the server sends the first 100
  int64_t name_count = 0;          // of all
  int64_t n = 0;
  int64_t k = 0;
  std::string format;  // kbit2..kbit5, q4_0, ternary, int4 or dense
  int64_t resident_bytes = 0;
  int64_t uploaded_bytes = 0;
  bool has_bias = false;
  std::string spec;  // the canonical text that the id is hashed from
};

struct LoadResult {
  WeightsInfo weights;
  bool deduplicated = false;  // the server held these bytes already
  // Bytes that were there of an upload that was cut off; of several servers at
  // the one that had least.
  int64_t resumed_bytes = 0;
  // Blocks whose scale was rounded to zero (kbit).
  int64_t flushed_blocks = 0;
};

// The id of weights: SHA-256 of the spec's canonical text and all section
// bytes, 64 hexadecimal digits.
// Errors: INVALID_ARGUMENT if the sections are not those of the spec.
absl::StatusOr<std::string> IdOf(const EncodedWeights& weights);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_WEIGHTS_H_
