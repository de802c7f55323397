// SPDX-License-Identifier: Apache-2.0
//
// Quantizes one dense row. The server (dense uploads) and the encoder
// (clients) both go through here, so they make the same codes.

#ifndef QGEMM_KERNELS_FORMATS_ROW_QUANTIZER_H_
#define QGEMM_KERNELS_FORMATS_ROW_QUANTIZER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// A row's codes, scales and zeros in canonical form. Scales are fp32, not yet
// rounded to the scale type; zeros are filled only if the header has them.
struct QuantizedRow {
  explicit QuantizedRow(const WeightsHeader& header)
      : codes(header.k),
        scales(header.groups_per_row()),
        zeros(header.has_zeros ? header.groups_per_row() : 0) {}

  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<uint8_t> zeros;
};

// Immutable and thread-safe.
class RowQuantizer {
 public:
  virtual ~RowQuantizer() = default;

  // `row` holds header.k finite values, `out` was made for the same header.
  virtual void Quantize(const float* row, QuantizedRow* out) const = 0;
};

// `target` is not kNone; `header` is that of the canonical form and must
// outlive the quantizer.
std::unique_ptr<RowQuantizer> NewRowQuantizer(QuantizeTarget target,
                                              const WeightsHeader& header);

// OK if all of the row is finite, else INVALID_ARGUMENT with its row and
// column.
absl::Status CheckWeights(absl::Span<const float> weights, int64_t row);

// Rounds the scales of a row to `type`. Counts non-zero ones that became
// zero into `flushed`. Errors: INVALID_ARGUMENT if one overflows, with its
// row and group.
absl::Status StoreScales(ScaleType type, int64_t row,
                         absl::Span<const float> scales, uint8_t* bytes,
                         int64_t* flushed);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_ROW_QUANTIZER_H_
