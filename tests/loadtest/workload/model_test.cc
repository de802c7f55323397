// SPDX-License-Identifier: Apache-2.0
//
// Built-in models against the parameter counts that they are known by, and
// model files: layers, counts and blocks, and which line is wrong.

#include "loadtest/workload/model.h"

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace qgemm::loadtest {
namespace {

std::vector<LayerShape> LayersOf(absl::string_view model) {
  const auto layers = ModelLayers(model, 0);
  EXPECT_TRUE(layers.ok()) << layers.status();
  return layers.value_or(std::vector<LayerShape>());
}

int64_t Parameters(absl::string_view model) {
  int64_t sum = 0;
  for (const LayerShape& layer : LayersOf(model)) sum += layer.k * layer.n;
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

using Layers = std::vector<LayerShape>;

Layers Parse(absl::string_view text, int64_t max_blocks = 0) {
  const auto layers = ParseModelFile(text, max_blocks);
  EXPECT_TRUE(layers.ok()) << layers.status();
  return layers.value_or(Layers());
}

TEST(ParseModelFile, SkipsCommentsAndEmptyLines) {
  EXPECT_EQ(Parse("# a model\r\n\n\t up  64x32  # first\r\n"),
            (Layers{{"up", 64, 32}}));
}

TEST(ParseModelFile, ACountNumbersTheNames) {
  EXPECT_EQ(Parse("expert 64x32 *2\n"),
            (Layers{{"expert.0", 64, 32}, {"expert.1", 64, 32}}));
}

TEST(ParseModelFile, RepeatsBlocks) {
  EXPECT_EQ(Parse("in 8x16\nrepeat 2\n  a 16x16\n  b 16x8\nend\nout 8x4\n"),
            (Layers{{"in", 8, 16},
                    {"block.0.a", 16, 16},
                    {"block.0.b", 16, 8},
                    {"block.1.a", 16, 16},
                    {"block.1.b", 16, 8},
                    {"out", 8, 4}}));
}

TEST(ParseModelFile, CountsBlocksOverAllRepeats) {
  const absl::string_view text = "repeat 2\na 1x1\nend\nrepeat 2\na 2x2\nend\n";
  EXPECT_EQ(Parse(text), (Layers{{"block.0.a", 1, 1},
                                 {"block.1.a", 1, 1},
                                 {"block.2.a", 2, 2},
                                 {"block.3.a", 2, 2}}));
}

TEST(ParseModelFile, WritesABuiltInModel) {
  const Layers parsed = Parse(
      "repeat 32\nq 4096x4096\nk 4096x1024\nv 4096x1024\no 4096x4096\n"
      "gate 4096x14336\nup 4096x14336\ndown 14336x4096\nend");
  EXPECT_EQ(parsed, *ModelLayers("llama3-8b", 0));
}

struct BadText {
  const char* text;
  const char* names;  // what the message must hold
};

class BadModelFile : public testing::TestWithParam<BadText> {};

TEST_P(BadModelFile, IsRefusedByLine) {
  const absl::Status status = ParseModelFile(GetParam().text, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), GetParam().names)) << status;
}

INSTANTIATE_TEST_SUITE_P(
    ParseModelFile, BadModelFile,
    testing::Values(
        BadText{"", "one layer or more"}, BadText{"up\n", "line 1 \"up\""},
        BadText{"a 1x1\nup 5\n", "line 2 \"up 5\""},
        BadText{"up 0x5\n", "1 to 1048576"}, BadText{"up 5x-5\n", "line 1"},
        BadText{"up 5x5x5\n", "line 1"}, BadText{"up 2000000x5\n", "line 1"},
        BadText{"up 5x5 3\n", "*COUNT"}, BadText{"up 5x5 *0\n", "*COUNT"},
        BadText{"up 5x5 *2 x\n", "*COUNT"},
        BadText{"up 5x5 *65537\n", "1 to 65536"},
        BadText{"a/b 5x5\n", "a name must be"},
        BadText{"a 1x1\na 2x2\n", "line 2 \"a 2x2\": a layer is named a"},
        BadText{"a.0 1x1\na 2x2 *2\n", "line 2"},
        BadText{"block.1.a 1x1\nrepeat 2\na 1x1\nend\n", "line 4"},
        BadText{"repeat\na 1x1\nend\n", "repeat COUNT"},
        BadText{"repeat 0\na 1x1\nend\n", "repeat COUNT"},
        BadText{"a 1x1\nend\n", "line 2 \"end\""},
        BadText{"repeat 2\na 1x1\nend 2\n", "line 3 \"end 2\""},
        BadText{"repeat 2\nrepeat 2\n", "the repeat of line 1"},
        BadText{"b 1x1\nrepeat 2\na 1x1\n", "line 2: this repeat must have"},
        BadText{"repeat 2\na 1x1 *40000\nend\n", "at most 65536"}));

}  // namespace

}  // namespace qgemm::loadtest
