// SPDX-License-Identifier: Apache-2.0
//
// Turns the bytes of an upload into the canonical form while they arrive. One
// decoder class a wire format, made here by the spec.

#ifndef QGEMM_KERNELS_FORMATS_WEIGHTS_DECODER_H_
#define QGEMM_KERNELS_FORMATS_WEIGHTS_DECODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// Remarks about weights that are usable all the same.
struct DecodeReport {
  // Blocks whose scale is not zero and was rounded to zero (kbit's E4M4).
  int64_t flushed_blocks = 0;
};

// Feeds a sink; holds at most DecoderBytes in memory of its own. Used by one
// thread at a time.
class WeightsDecoder {
 public:
  virtual ~WeightsDecoder() = default;

  // The next bytes of a section. Sections come whole and in SectionsOf order,
  // the bytes of each in order without gaps, cut anywhere; the caller checks
  // offsets. Errors: INVALID_ARGUMENT (a code or value that the format does
  // not allow, with its row and column), or the sink's.
  virtual absl::Status Append(Section section,
                              absl::Span<const uint8_t> bytes) = 0;

  // Ends the stream. INVALID_ARGUMENT if a section is short.
  virtual absl::StatusOr<DecodeReport> Finish() = 0;
};

// A decoder of a valid spec; `sink` must outlive it.
std::unique_ptr<WeightsDecoder> NewWeightsDecoder(const WeightsSpec& spec,
                                                  WeightsSink* sink);

// Upper bound of the memory that a decoder of a valid spec takes beside its
// sink's: the metadata sections, a row panel, and kbit's absmax where the
// tensor scale depends on the largest of them.
int64_t DecoderBytes(const WeightsSpec& spec);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_WEIGHTS_DECODER_H_
