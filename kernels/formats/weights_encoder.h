// SPDX-License-Identifier: Apache-2.0
//
// Quantizes dense rows into upload bytes, for clients and tools. The server
// quantizes dense uploads by the same row functions, so both sides make the
// same codes.

#ifndef QGEMM_KERNELS_FORMATS_WEIGHTS_ENCODER_H_
#define QGEMM_KERNELS_FORMATS_WEIGHTS_ENCODER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/formats/weights_spec.h"

namespace qgemm {

// An upload held in memory: what the spec says, and one byte array a section
// in SectionsOf order.
struct EncodedWeights {
  struct SectionBytes {
    Section section;
    std::vector<uint8_t> bytes;
  };
  WeightsSpec spec;
  std::vector<SectionBytes> sections;
};

// The format to encode to, and its variants.
struct EncodeOptions {
  QuantizeTarget target = QuantizeTarget::kKbit;  // not kNone
  int bits = 4;                                   // kbit
  // kbit absmax: kE4m4, kFloat16 or kFloat32. kE4m4 comes out as kFloat32, in
  // the spec too, if the weights need a tensor scale, which the server then
  // chooses. int4 scales: kFloat16 (also for kE4m4), kBFloat16 or kFloat32.
  ScaleType scale_type = ScaleType::kE4m4;
  std::vector<float> codebook;  // kbit; empty = the default
  int64_t group_size = 128;     // int4; 0 = all of k
  bool asymmetric = false;      // int4
  TernaryCoding ternary_coding = TernaryCoding::kPacked012;
};

// Quantizes w[n, k], row-major fp32. `bias` is empty or n values.
// Errors: INVALID_ARGUMENT (illegal shape or option, a weight that is not
// finite, with its row and column).
absl::StatusOr<EncodedWeights> EncodeWeights(absl::Span<const float> w,
                                             int64_t n, int64_t k,
                                             absl::Span<const float> bias,
                                             const EncodeOptions& options);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_WEIGHTS_ENCODER_H_
