// SPDX-License-Identifier: Apache-2.0
//
// Many reproducible layers quickly: one of each shape is drawn and quantized,
// the others are copies of it with their rows moved.

#ifndef QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_LAYERS_H_
#define QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_LAYERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "loadtest/workload/model_shapes.h"
#include "loadtest/workload/synthetic_name.h"
#include "kernels/formats/weights_encoder.h"

namespace qgemm {

// A layer of each shape, in order; those of equal shape are numbered from 0.
std::vector<SyntheticLayer> NumberLayers(absl::Span<const LayerShape> shapes,
                                         absl::string_view format,
                                         uint64_t seed);

// By how many rows layer number `index` of a shape is rotated: other numbers
// for any `n` successive indexes.
int64_t RowShift(int64_t index, int64_t n);

// Keeps the layers that it has drawn. The same layer has the same bytes in
// every run; two of one shape have other bytes, unless rows are so short that
// they are equal by chance. Not thread-safe.
class SyntheticLayers {
 public:
  // Errors: INVALID_ARGUMENT (an unknown format, a shape that it does not
  // allow, an index below 0).
  absl::StatusOr<EncodedWeights> Make(const SyntheticLayer& layer);

 private:
  absl::StatusOr<const EncodedWeights*> BaseOf(const SyntheticLayer& layer);

  // By the name of the layer of index 0 and the seed that it is drawn from.
  std::map<std::string, EncodedWeights> bases_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_LAYERS_H_
