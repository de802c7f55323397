// SPDX-License-Identifier: Apache-2.0
//
// The linear layers of published models, by name and shape. Other models come
// from model_file.h.

#ifndef QGEMM_LOADTEST_WORKLOAD_MODEL_SHAPES_H_
#define QGEMM_LOADTEST_WORKLOAD_MODEL_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm {

struct LayerShape {
  std::string name;  // "block.3.up"
  int64_t k = 0;     // input features
  int64_t n = 0;     // output features
};

inline bool operator==(const LayerShape& a, const LayerShape& b) {
  return a.name == b.name && a.k == b.k && a.n == b.n;
}

// "block.3.up"
std::string BlockLayerName(int64_t block, absl::string_view layer);

// The models that ModelLayers knows, in order: "llama2-7b", …
std::vector<std::string> KnownModels();

// The layers of `model` in the order in which a token calls them: of each
// block q, k, v, o, gate, up and down, each a layer of its own; neither
// embedding nor head. `max_blocks` cuts the model off; 0: all.
// Errors: INVALID_ARGUMENT (an unknown model) that lists those known.
absl::StatusOr<std::vector<LayerShape>> ModelLayers(absl::string_view model,
                                                    int64_t max_blocks);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_MODEL_SHAPES_H_
