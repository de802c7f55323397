// SPDX-License-Identifier: Apache-2.0
//
// The programs of a model: legal for its layers, one product of each, and rows
// of the sizes that requests are made with.

#include "loadtest/walk_programs.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/programs/checked_program.h"
#include "loadtest/workload/model.h"

namespace qgemm::loadtest {
namespace {

struct Walk {
  explicit Walk(const ModelShape& model) {
    std::vector<std::string> names;
    for (const LayerShape& layer : WalkLayers(model)) {
      names.push_back(absl::StrCat("on/server/", layer.name));
      ProgramWeights& weights = shapes[names.back()];
      weights.id = layer.name;
      weights.shape.dense = true;
      weights.shape.n = layer.n;
      weights.shape.k = layer.k;
    }
    programs = ProgramsOfWalk(model, names);
  }

  ProgramWeightsMap shapes;
  std::vector<WalkProgram> programs;
};

TEST(WalkProgramsTest, ATokenIsACallALayerAndTheHead) {
  EXPECT_EQ(Walk(*ModelShapeOf("llama3-8b", 0)).programs.size(), 33);
  EXPECT_EQ(Walk(*ModelShapeOf("llama3-70b", 0)).programs.size(), 81);
}

TEST(WalkProgramsTest, ProgramsAreLegalAndTheirRowsAsLongAsTheySay) {
  for (const std::string& model : KnownModels()) {
    SCOPED_TRACE(model);
    const Walk walk(*ModelShapeOf(model, 2));
    for (const WalkProgram& each : walk.programs) {
      const auto checked = CheckProgram(each.program, walk.shapes);
      ASSERT_TRUE(checked.ok()) << checked.status();
      EXPECT_EQ(checked->input_row_bytes(), 2 * each.input_row_elements);
      EXPECT_EQ(checked->output_row_bytes(), each.output_row_bytes);
    }
  }
}

TEST(WalkProgramsTest, RowsOfLlama3Are16KiBInAnd20KiBOut) {
  const Walk walk(*ModelShapeOf("llama3-8b", 1));
  EXPECT_EQ(2 * walk.programs[0].input_row_elements, 16 << 10);
  EXPECT_EQ(walk.programs[0].output_row_bytes, 20 << 10);
  EXPECT_EQ(walk.programs[1].output_row_bytes, 512);
}

TEST(WalkProgramsTest, EachProductOfTheModelIsInTheWalkOnce) {
  const Walk walk(*ModelShapeOf("qwen2.5-7b", 3));
  std::map<std::string, int> uses;
  for (const WalkProgram& program : walk.programs) {
    EXPECT_EQ(uses.count(program.first_weights), 0);
    for (const ProgramOp& op : program.program.ops) {
      if (op.kind == OpKind::kGemm) ++uses[op.weights];
    }
  }
  EXPECT_EQ(uses.size(), walk.shapes.size());
  for (const auto& [name, count] : uses) EXPECT_EQ(count, 1) << name;
}

TEST(WalkProgramsTest, ALayerEndsWithTheProductsOfTheNext) {
  const Walk walk(*ModelShapeOf("llama3-8b", 2));
  const std::vector<ProgramOp>& ops = walk.programs[0].program.ops;
  EXPECT_EQ(ops.front().weights, "on/server/block.0.o");
  EXPECT_EQ(ops.back().weights, "on/server/block.1.v");
  EXPECT_EQ(walk.programs[1].program.ops.back().weights, "on/server/block.0.v");
}

TEST(WalkProgramsTest, ASmallVocabularyIsListedWhole) {
  const Walk walk({1, 64, 96, 32, 40});
  EXPECT_EQ(walk.programs.back().program.ops.back().top_k, 40);
}

}  // namespace
}  // namespace qgemm::loadtest
