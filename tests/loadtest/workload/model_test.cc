// SPDX-License-Identifier: Apache-2.0
//
// Built-in models against the parameter counts that they are known by, and
// model files: layers, counts and blocks, and which line is wrong.

#include "loadtest/workload/model.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace qgemm::loadtest {

bool operator==(const LayerShape& a, const LayerShape& b) {
  return a.name == b.name && a.k == b.k && a.n == b.n;
}

namespace {

std::vector<LayerShape> AllLayers(absl::string_view model) {
  const auto layers = ModelLayers(model, 0);
  EXPECT_TRUE(layers.ok()) << layers.status();
  return layers.value_or(std::vector<LayerShape>());
}

int64_t Parameters(absl::string_view model) {
  int64_t sum = 0;
  for (const LayerShape& layer : AllLayers(model)) sum += layer.k * layer.n;
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

TEST(ModelLayers, AreCutOffAfterTheAskedBlocks) {
  EXPECT_EQ(ModelLayers("llama3-8b", 3)->size(), 21);
  EXPECT_EQ(ModelLayers("llama3-8b", 3)->back().name, "block.2.down");
  EXPECT_EQ(ModelLayers("llama3-8b", 1000)->size(), 7 * 32);
}

TEST(ModelShapeOf, KnowsTheVocabulary) {
  for (const auto& [model, vocabulary] : {std::make_pair("llama2-7b", 32000),
                                          {"llama3-8b", 128256},
                                          {"llama3-70b", 128256},
                                          {"qwen2.5-7b", 152064}}) {
    EXPECT_EQ(ModelShapeOf(model, 0)->vocabulary, vocabulary) << model;
  }
  EXPECT_EQ(ModelShapeOf("llama3-8b", 2)->blocks, 2);
  EXPECT_EQ(ModelShapeOf("llama9", 0).status().code(),
            absl::StatusCode::kNotFound);
}

constexpr char kSmallModel[] = R"({"blocks": 2, "hidden": 64,
    "feed_forward": 96, "key_value": 32, "vocabulary": 128})";

TEST(ParseModelShape, ReadsTheWidths) {
  const auto model = ParseModelShape(kSmallModel, 0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->vocabulary, 128);
  const std::vector<LayerShape> layers = LayersOf(*model);
  ASSERT_EQ(layers.size(), 14);
  EXPECT_EQ(layers[1], (LayerShape{"block.0.k", 64, 32}));
  EXPECT_EQ(layers.back(), (LayerShape{"block.1.down", 96, 64}));
  EXPECT_EQ(ParseModelShape(kSmallModel, 1)->blocks, 1);
}

TEST(ParseModelShape, RefusesAllElseAndNamesTheNumber) {
  for (const auto& [from, to] :
       {std::make_pair(R"("hidden": 64)", R"("hidden": 0)"),
        {R"("hidden": 64)", R"("hidden": "64")"},
        {R"("hidden": 64)", R"("hidden": 1048577)"},
        {R"("hidden")", R"("width")"}}) {
    const std::string text = absl::StrReplaceAll(kSmallModel, {{from, to}});
    const absl::Status status = ParseModelShape(text, 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), "wrong hidden")) << status;
  }
  EXPECT_EQ(ParseModelShape("[]", 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

using Layers = std::vector<LayerShape>;

Layers Parse(absl::string_view text, int64_t max_blocks = 0) {
  const auto layers = ParseModelFile(text, max_blocks);
  EXPECT_TRUE(layers.ok()) << layers.status();
  return layers.value_or(Layers());
}

TEST(ParseModelFile, RepeatsTheLayersOfABlock) {
  constexpr char kText[] = R"({"blocks": 2, "layers": [
      {"name": "a", "k": 16, "n": 8}, {"name": "b", "k": 8, "n": 16}]})";
  const Layers both = Parse(kText);
  EXPECT_EQ(both, (Layers{{"block.0.a", 16, 8},
                          {"block.0.b", 8, 16},
                          {"block.1.a", 16, 8},
                          {"block.1.b", 8, 16}}));
  EXPECT_EQ(Parse(kText, 1), Layers(both.begin(), both.begin() + 2));
}

TEST(ParseModelFile, WithoutBlocksIsOne) {
  EXPECT_EQ(Parse(R"({"layers": [{"name": "up", "k": 64, "n": 32}]})"),
            (Layers{{"block.0.up", 64, 32}}));
}

TEST(ParseModelFile, RefusesAllElseAndSaysWhatIsAllowed) {
  constexpr char kLayer[] = R"({"name": "a", "k": 1, "n": 1})";
  for (const std::string& text : std::vector<std::string>{
           "", "up 64x32", "[]", "{}", R"({"layers": []})", R"({"layers": 5})",
           R"({"layers": [5]})", R"({"layers": [{"name": "a", "k": 1}]})",
           R"({"layers": [{"name": 1, "k": 1, "n": 1}]})",
           R"({"layers": [{"name": "a", "k": 0, "n": 1}]})",
           R"({"layers": [{"name": "a", "k": 1, "n": 1048577}]})",
           R"({"layers": [{"name": "a", "k": 1, "n": "1"}]})",
           absl::StrCat(R"({"blocks": 0, "layers": [)", kLayer, "]}"),
           absl::StrCat(R"({"blocks": 65537, "layers": [)", kLayer, "]}"),
           absl::StrCat(R"({"blocks": "x", "layers": [)", kLayer, "]}")}) {
    const absl::Status status = ParseModelFile(text, 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), "\"layers\"")) << status;
  }
}

}  // namespace

}  // namespace qgemm::loadtest
