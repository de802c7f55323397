// SPDX-License-Identifier: Apache-2.0

#include "loadtest/walk_programs.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace qgemm::loadtest {
namespace {

constexpr float kEps = 1e-5f;
constexpr int64_t kBestTokens = 64;
constexpr int64_t kElementBytes = 2;  // of bf16

// Places of a block's weights, as LayersOf has them.
enum BlockWeights { kQ, kK, kV, kO, kGate, kUp, kDown, kWeightsOfBlock };

// The names of a block's weights.
using Block = absl::Span<const std::string>;

ConstantHandle NormWeight(const ModelShape& model, const char* name,
                          ProgramBuilder* builder) {
  const std::vector<float> ones(model.hidden, 1.0f);
  return builder->Constant(ones, {name});
}

WalkProgram LayerProgram(const ModelShape& model, Block block, Block next) {
  ProgramBuilder builder(NumberType::kBFloat16);
  const RowsHandle a = builder.Input(model.hidden, {"a"});
  const RowsHandle x = builder.Input(model.hidden, {"x"});
  const ConstantHandle ffn_norm = NormWeight(model, "ffn_norm", &builder);
  const ConstantHandle next_norm = NormWeight(model, "next_norm", &builder);
  const RowsHandle o = builder.Gemm(a, block[kO], {"o"});
  const RowsHandle r = builder.Add(x, o, {"r", NumberType::kFloat32});
  const RowsHandle h = builder.RmsNorm(r, ffn_norm, kEps);
  const RowsHandle gate = builder.Gemm(h, block[kGate], {"gate"});
  const RowsHandle up = builder.Gemm(h, block[kUp], {"up"});
  const RowsHandle gated =
      builder.Mul(builder.Act(gate, Activation::kSilu), up);
  const RowsHandle f = builder.Gemm(gated, block[kDown], {"down"});
  const RowsHandle sum = builder.Add(r, f, {"x_next"});
  const RowsHandle next_h = builder.RmsNorm(sum, next_norm, kEps);
  builder.Output(sum);
  for (const int each : {kQ, kK, kV}) {
    builder.Output(builder.Gemm(next_h, next[each]));
  }
  WalkProgram layer;
  layer.first_weights = block[kO];
  layer.program = builder.Build();
  layer.input_row_elements = 2 * model.hidden;
  layer.output_row_bytes =
      (2 * model.hidden + 2 * model.key_value) * kElementBytes;
  return layer;
}

WalkProgram HeadProgram(const ModelShape& model, const std::string& weights) {
  const int64_t best_tokens = std::min(kBestTokens, model.vocabulary);
  ProgramBuilder builder(NumberType::kBFloat16);
  const RowsHandle x = builder.Input(model.hidden, {"x"});
  const ConstantHandle norm = NormWeight(model, "norm", &builder);
  const RowsHandle logits =
      builder.Gemm(builder.RmsNorm(x, norm, kEps), weights,
                   {"logits", NumberType::kFloat32});
  const TopKHandles best = builder.TopK(logits, best_tokens);
  builder.Output(best.values);
  builder.Output(best.ids);
  WalkProgram head;
  head.first_weights = weights;
  head.program = builder.Build();
  head.input_row_elements = model.hidden;
  head.output_row_bytes =
      best_tokens * (SizeOf(NumberType::kFloat32) + SizeOf(NumberType::kInt32));
  return head;
}

}  // namespace

std::vector<LayerShape> WalkLayers(const ModelShape& model) {
  std::vector<LayerShape> layers = LayersOf(model);
  layers.push_back({"head", model.hidden, model.vocabulary});
  return layers;
}

std::vector<WalkProgram> ProgramsOfWalk(const ModelShape& model,
                                        absl::Span<const std::string> weights) {
  CHECK(static_cast<int64_t>(weights.size()) ==
        model.blocks * kWeightsOfBlock + 1)
      << weights.size();
  const auto block = [weights](int64_t number) {
    return weights.subspan(number * kWeightsOfBlock, kWeightsOfBlock);
  };
  std::vector<WalkProgram> programs;
  for (int64_t i = 0; i < model.blocks; ++i) {
    programs.push_back(
        LayerProgram(model, block(i), block((i + 1) % model.blocks)));
  }
  programs.push_back(HeadProgram(model, weights.back()));
  return programs;
}

}  // namespace qgemm::loadtest
