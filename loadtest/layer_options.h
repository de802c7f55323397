// SPDX-License-Identifier: Apache-2.0
//
// The flags that say which layers are under load. A part of options.h.

#ifndef QGEMM_LOADTEST_LAYER_OPTIONS_H_
#define QGEMM_LOADTEST_LAYER_OPTIONS_H_

#include "absl/status/statusor.h"
#include "loadtest/options.h"

namespace qgemm {

// Errors: INVALID_ARGUMENT that names the flag, its value and what is legal.
absl::StatusOr<LayerOptions> ParseLayerOptions(const LoadtestFlags& flags,
                                               const LoadtestHost& host);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_LAYER_OPTIONS_H_
