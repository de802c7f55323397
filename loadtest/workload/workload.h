// SPDX-License-Identifier: Apache-2.0
//
// What each request of a run is: its layer, its number of rows, its input. No
// operands and no connections; numbers alone.

#ifndef QGEMM_LOADTEST_WORKLOAD_WORKLOAD_H_
#define QGEMM_LOADTEST_WORKLOAD_WORKLOAD_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "loadtest/workload/row_mix.h"
#include "loadtest/workload/weights_pick.h"

namespace qgemm {

struct RequestPick {
  int layer = 0;
  int row_class = 0;  // an index into RowMix::classes()
  int input = 0;      // of those of its layer and class
};

inline bool operator==(const RequestPick& a, const RequestPick& b) {
  return a.layer == b.layer && a.row_class == b.row_class && a.input == b.input;
}

struct WorkloadOptions {
  // `layers.seed` seeds all draws.
  LayerPickOptions layers;
  RowMix rows;
  int inputs = 1;  // of each layer and class
};

// Picks follow from the options and the request's numbers: the same in every
// order, on any thread. Immutable, thread-safe; picks allocate nothing.
class Workload {
 public:
  // Errors: INVALID_ARGUMENT (as LayerPicker; no inputs).
  static absl::StatusOr<Workload> Create(const WorkloadOptions& options);

  // Request number `sequence`, from 0, of a client, or of the arrival of that
  // index. A walking client keeps its rows for a pass through all layers, as
  // a token or a prompt does; else every request draws its own.
  RequestPick Pick(int64_t client, int64_t sequence) const;

  const RowMix& rows() const { return options_.rows; }

 private:
  Workload(const WorkloadOptions& options, LayerPicker layers)
      : options_(options), layers_(std::move(layers)) {}

  WorkloadOptions options_;
  LayerPicker layers_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_WORKLOAD_H_
