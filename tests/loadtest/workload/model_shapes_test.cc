// SPDX-License-Identifier: Apache-2.0
//
// Built-in models against the parameter counts that they are known by.

#include "loadtest/workload/model_shapes.h"

#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

std::vector<LayerShape> Layers(absl::string_view model) {
  const auto layers = ModelLayers(model, 0);
  EXPECT_TRUE(layers.ok()) << layers.status();
  return layers.value_or(std::vector<LayerShape>());
}

int64_t Parameters(absl::string_view model) {
  int64_t sum = 0;
  for (const LayerShape& layer : Layers(model)) sum += layer.k * layer.n;
  return sum;
}

TEST(ModelLayers, ABlockIsInCallingOrder) {
  const auto layers = ModelLayers("llama3-8b", 1);
  ASSERT_TRUE(layers.ok());
  EXPECT_EQ(*layers, (std::vector<LayerShape>{{"block.0.q", 4096, 4096},
                                              {"block.0.k", 4096, 1024},
                                              {"block.0.v", 4096, 1024},
                                              {"block.0.o", 4096, 4096},
                                              {"block.0.gate", 4096, 14336},
                                              {"block.0.up", 4096, 14336},
                                              {"block.0.down", 14336, 4096}}));
}

TEST(ModelLayers, HaveThePublishedParameters) {
  // The published counts of all parameters, less those of the embedding and
  // the head (vocabulary times hidden each), of two norms a block and one at
  // the end (hidden each), and of Qwen's biases of q, k and v.
  EXPECT_EQ(Parameters("llama2-7b"),
            6738415616 - 2 * 32000 * int64_t{4096} - (2 * 32 + 1) * 4096);
  EXPECT_EQ(Parameters("llama3-8b"),
            8030261248 - 2 * 128256 * int64_t{4096} - (2 * 32 + 1) * 4096);
  EXPECT_EQ(Parameters("llama3-70b"),
            70553706496 - 2 * 128256 * int64_t{8192} - (2 * 80 + 1) * 8192);
  EXPECT_EQ(Parameters("qwen2.5-7b"), 7615616512 - 2 * 152064 * int64_t{3584} -
                                          (2 * 28 + 1) * 3584 -
                                          28 * (3584 + 512 + 512));
}

TEST(ModelLayers, EachLayerHasANameOfItsOwn) {
  for (const std::string& model : KnownModels()) {
    std::set<std::string> names;
    for (const LayerShape& layer : Layers(model)) names.insert(layer.name);
    EXPECT_EQ(names.size(), Layers(model).size()) << model;
  }
}

TEST(ModelLayers, AreCutOffAfterTheAskedBlocks) {
  EXPECT_EQ(ModelLayers("llama3-8b", 3)->size(), 21);
  EXPECT_EQ(ModelLayers("llama3-8b", 3)->back().name, "block.2.down");
  EXPECT_EQ(ModelLayers("llama3-8b", 1000)->size(), 7 * 32);
}

TEST(ModelLayers, AnUnknownModelIsToldTheKnownOnes) {
  const absl::Status status = ModelLayers("llama9", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "llama9")) << status;
  for (const std::string& model : KnownModels()) {
    EXPECT_TRUE(absl::StrContains(status.message(), model)) << status;
  }
}

}  // namespace
}  // namespace qgemm
