// SPDX-License-Identifier: Apache-2.0
//
// The worked layers of docs/programs.md as programs, at any size: the call that
// follows a layer's attention and ends with the next layer's q, k and v. And
// the draft that they are written with, for programs of a test's own.

#ifndef QGEMM_TESTS_SUPPORT_PROGRAM_LAYERS_H_
#define QGEMM_TESTS_SUPPORT_PROGRAM_LAYERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/matrix/canonical_weights.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/program.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm {

// Builds a program by appending: all inputs, all constants, then ops. Each call
// gives the number of the value that it adds.
class ProgramDraft {
 public:
  // `type` is that of every result; last() changes it for one.
  explicit ProgramDraft(NumberType type) : type_(type) {}

  ValueNumber Input(NumberType type, int64_t width);
  ValueNumber Constant(NumberType type, const std::vector<float>& values);

  ValueNumber Gemm(ValueNumber x, const std::string& weights);
  ValueNumber Add(ValueNumber x, ValueNumber y);
  ValueNumber Mul(ValueNumber x, ValueNumber y);
  ValueNumber Act(ValueNumber x, Activation activation);
  ValueNumber RmsNorm(ValueNumber x, ValueNumber weight, int64_t group = 0);
  ValueNumber LayerNorm(ValueNumber x, ValueNumber weight, ValueNumber bias);
  ValueNumber TopK(ValueNumber x, int64_t k);
  ValueNumber Clamp(ValueNumber x, float low, float high);
  ValueNumber Slice(ValueNumber x, int64_t begin, int64_t width);
  ValueNumber Convert(ValueNumber x, NumberType type);

  // The last op, to change what these calls do not take.
  ProgramOp& last() { return program_.ops.back(); }
  // Ends the draft.
  Program Finish(const std::vector<ValueNumber>& outputs);

 private:
  ValueNumber Append(OpKind kind, ValueNumber x);

  const NumberType type_;
  Program program_;
  ValueNumber next_ = 0;
};

// Columns of a transformer layer's parts.
struct LayerShape {
  int64_t hidden = 0;
  int64_t q = 0;     // heads * head
  int64_t kv = 0;    // key-value heads * head
  int64_t head = 0;  // of one head
  int64_t ffn = 0;
};

// A program, and the n and k of each of its weights by name.
struct WorkedProgram {
  std::string name;
  Program program;
  std::map<std::string, std::pair<int64_t, int64_t>> weights;
};

// Types of a worked layer: of results and constants, and of the residual.
struct LayerTypes {
  NumberType value = NumberType::kBFloat16;
  NumberType residual = NumberType::kFloat32;
};

// Values of a norm's weight of the given width.
using NormWeights = std::vector<float> (*)(int64_t width);
std::vector<float> Ones(int64_t width);
// Between 0.5 and 1.5, each another.
std::vector<float> Slopes(int64_t width);

// Inputs a [m, q] of the value type and x [m, hidden] of the residual's;
// outputs x', q, k, v. Weights are named o, gate, up, down, q, k, v; BERT's FFN
// up and down.
WorkedProgram LlamaLayer(const LayerShape& shape, const LayerTypes& types,
                         NormWeights norm_weights = Slopes);
// Llama with norms over each head of q and k.
WorkedProgram Qwen3Layer(const LayerShape& shape, const LayerTypes& types);
// Norms before and after attention and FFN, GELU_TANH; 1 + w is in the
// constants.
WorkedProgram GemmaLayer(const LayerShape& shape, const LayerTypes& types);
// Norms behind the residual sums, GELU_ERF; biases are in the weights.
WorkedProgram BertLayer(const LayerShape& shape, const LayerTypes& types);
// The last norm, the head and its 8 best tokens, of n = `ffn`.
WorkedProgram Head(const LayerShape& shape, const LayerTypes& types);
// No layer: every kind of op once, on fp32, in 11 ops of width 4 to 16.
WorkedProgram EveryOp();
// Each of the above.
std::vector<WorkedProgram> WorkedPrograms(const LayerShape& shape,
                                          const LayerTypes& types);

// Shapes for a check: those of dense layers, with ids made of the names.
ProgramWeightsMap ShapesOf(const WorkedProgram& worked);

// Random weights of a worked program by its names, with a map for the check.
struct LoadedProgram {
  std::map<std::string, CanonicalWeights> weights;
  ProgramWeightsMap shapes;

  // In the order of the program's weights_ids().
  std::vector<const CanonicalWeights*> In(const CheckedProgram& program) const;
};
LoadedProgram RandomWeightsOf(const WorkedProgram& worked,
                              const WeightsRecipe& recipe,
                              RandomGenerator* random);

// The id that ShapesOf and RandomWeightsOf give weights of that name: its
// SHA-256.
std::string WeightsIdOf(const std::string& name);

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_PROGRAM_LAYERS_H_
