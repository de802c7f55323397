// SPDX-License-Identifier: Apache-2.0
//
// Sends a whole layer to a sink: in one piece each, or cut into panels of
// random shapes in random order.

#ifndef QGEMM_TESTS_SUPPORT_PANEL_WRITER_H_
#define QGEMM_TESTS_SUPPORT_PANEL_WRITER_H_

#include "absl/status/status.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/weights.h"
#include "tests/support/seeds.h"

namespace qgemm {

// Begin, then each array as one panel. Stops at the sink's first error.
absl::Status WriteWhole(const CanonicalWeights& weights, WeightsSink* sink);

// Begin, then rectangles that cover every array, all shuffled. Stops at the
// sink's first error.
absl::Status WriteInRandomPanels(const CanonicalWeights& weights,
                                 RandomGenerator* random, WeightsSink* sink);

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_PANEL_WRITER_H_
