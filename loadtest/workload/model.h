// SPDX-License-Identifier: Apache-2.0
//
// Models by name: widths of published ones, their linear layers by shape, and
// JSON files of other models and of the layers of a block. The caller reads the
// file.

#ifndef QGEMM_LOADTEST_WORKLOAD_MODEL_H_
#define QGEMM_LOADTEST_WORKLOAD_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm::loadtest {

// Largest k or n of a layer, and most rows of a request.
inline constexpr int64_t kMaxExtent = int64_t{1} << 20;

struct LayerShape {
  std::string name;  // "block.3.up"
  int64_t k = 0;     // input features, 1 to kMaxExtent
  int64_t n = 0;     // output features, 1 to kMaxExtent
};

// Widths of a decoder whose blocks are those of Llama.
struct ModelShape {
  int64_t blocks = 0;
  int64_t hidden = 0;        // of the residual, and of q
  int64_t feed_forward = 0;  // of gate and up
  int64_t key_value = 0;     // of k, and of v
  int64_t vocabulary = 0;    // of the head
};

// "KxN", with `name` as the layer's name. Errors: INVALID_ARGUMENT that says
// what is allowed.
absl::StatusOr<LayerShape> ParseShape(absl::string_view text, std::string name);

// The models that ModelShapeOf knows: "llama2-7b", …
std::vector<std::string> KnownModels();

// The widths of `model`. `max_blocks` limits the blocks; 0: all.
// Errors: NOT_FOUND (an unknown model).
absl::StatusOr<ModelShape> ModelShapeOf(absl::string_view model,
                                        int64_t max_blocks);

// The same of a model that JSON describes, each number from 1 to kMaxExtent:
//   {"blocks": 32, "hidden": 4096, "feed_forward": 14336, "key_value": 1024,
//    "vocabulary": 128256}
// Errors: INVALID_ARGUMENT that names the number and what is allowed.
absl::StatusOr<ModelShape> ParseModelShape(absl::string_view text,
                                           int64_t max_blocks);

// The layers of a model with those widths in the order in which a token calls
// them: for each block q, k, v, o, gate, up and down; neither embedding nor
// head.
std::vector<LayerShape> LayersOf(const ModelShape& model);

// The layers of a known model. Errors: those of ModelShapeOf.
absl::StatusOr<std::vector<LayerShape>> ModelLayers(absl::string_view model,
                                                    int64_t max_blocks);

// The layers that JSON lists for a block; absent, "blocks" is 1:
//   {"blocks": 32, "layers": [{"name": "up", "k": 4096, "n": 14336}, ...]}
// Errors: INVALID_ARGUMENT that names the layer and what is allowed.
absl::StatusOr<std::vector<LayerShape>> ParseModelFile(absl::string_view text,
                                                       int64_t max_blocks);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_WORKLOAD_MODEL_H_
