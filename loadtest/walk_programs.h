// SPDX-License-Identifier: Apache-2.0
//
// Programs of --program_walk: a token of a model like Llama as a call a layer
// and one of the head (docs/load-testing.md#programs). Pure.

#ifndef QGEMM_LOADTEST_WALK_PROGRAMS_H_
#define QGEMM_LOADTEST_WALK_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "loadtest/workload/model.h"
#include "qgemm/program.h"

namespace qgemm::loadtest {

// One call of a walk. Every input is bf16.
struct WalkProgram {
  std::string first_weights;  // the name of those of its first product
  Program program;
  int64_t input_row_elements = 0;  // of all inputs together
  int64_t output_row_bytes = 0;    // of all outputs together
};

// The weights of a walk: LayersOf(model), then "head".
std::vector<LayerShape> WalkLayers(const ModelShape& model);

// The programs of a token in the order in which it calls them. `weights` has
// the names, on the server, of WalkLayers(model).
//
// A layer's is that of docs/programs.md: from the attention's output a and the
// residual x to x' and the next layer's q, k and v; a, x and all outputs are
// bf16, the sum inside it fp32. The last layer's ends with the first layer's
// q, k and v, in place of the call that begins a token, so that the walk has
// each product of the model once. The head's ends with the 64 best tokens, or
// with all of a smaller vocabulary.
std::vector<WalkProgram> ProgramsOfWalk(const ModelShape& model,
                                        absl::Span<const std::string> weights);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_WALK_PROGRAMS_H_
