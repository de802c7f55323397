// SPDX-License-Identifier: Apache-2.0
//
// Makes many reproducible layers quickly: draws and quantizes one of each
// shape, and rotates the rows of copies of it for the others.

#ifndef QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_LAYERS_H_
#define QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_LAYERS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/formats/weights_encoder.h"

namespace qgemm::loadtest {

// Layer number `index` of those with this format, shape and seed.
struct SyntheticLayer {
  std::string format;  // of MakeRandomWeights
  int64_t k = 0;
  int64_t n = 0;
  uint64_t seed = 1;
  int64_t index = 0;
};

// "loadtest/<format>/<K>x<N>/<seed>/<index>", its name on the server: equal
// layers have equal names in every run.
std::string SyntheticName(const SyntheticLayer& layer);

// Rotation of the rows of layer number `index`: distinct for any `n`
// successive indexes.
int64_t RowShift(int64_t index, int64_t n);

// Row r of the result, its scales and bias included, is row
// (r + row_shift) mod n of `base`; `row_shift` is 0 to n - 1.
// Errors: INVALID_ARGUMENT (a layout whose rows are not each of whole bytes in
// one place: tiled kbit, GPTQ, AWQ).
absl::StatusOr<EncodedWeights> RotateRows(const EncodedWeights& base,
                                          int64_t row_shift);

// Keeps the layers that it has drawn. The same layer has the same bytes in
// every run; two of one shape have different bytes, unless rows are so short
// that they are equal by chance. Not thread-safe.
class SyntheticLayers {
 public:
  // Errors: INVALID_ARGUMENT (an unknown format, a shape that it does not
  // allow, an index below 0).
  absl::StatusOr<EncodedWeights> Make(const SyntheticLayer& layer);

 private:
  absl::StatusOr<const EncodedWeights*> BaseOf(SyntheticLayer layer);

  // By the name of the layer of index 0 and the seed that it is drawn from.
  std::map<std::string, EncodedWeights> bases_;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_LAYERS_H_
