// SPDX-License-Identifier: Apache-2.0
//
// The linear layers of a model as a text lists them. Parsing only; reading
// the file is the caller's.

#ifndef QGEMM_LOADTEST_WORKLOAD_MODEL_FILE_H_
#define QGEMM_LOADTEST_WORKLOAD_MODEL_FILE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "loadtest/workload/model_shapes.h"

namespace qgemm {

// Layers in the order of a text with a statement a line; '#' begins a comment:
//   NAME KxN          a layer
//   NAME KxN *COUNT   layers NAME.0 to NAME.(COUNT-1) of that shape
//   repeat COUNT      begins a block, which comes COUNT times: up to "end";
//   end               its layers are block.I.NAME, I counting all blocks
// `max_blocks` cuts the blocks off, 0: all; layers outside of them stay.
// Errors: INVALID_ARGUMENT that names the line and what is legal.
absl::StatusOr<std::vector<LayerShape>> ParseModelFile(absl::string_view text,
                                                       int64_t max_blocks);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_MODEL_FILE_H_
