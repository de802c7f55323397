// SPDX-License-Identifier: Apache-2.0
//
// The launches of worked layers and of small programs, and what each stores.

#include "kernels/cuda/plan/program_fusion.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/programs/checked_program.h"
#include "tests/support/program_layers.h"

namespace qgemm::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr qgemm::LayerShape kShape = {64, 64, 32, 32, 96};

CheckedProgram Checked(const WorkedProgram& worked) {
  auto checked = CheckProgram(worked.program, ShapesOf(worked));
  EXPECT_TRUE(checked.ok()) << checked.status();
  return *std::move(checked);
}

// One kernel for all GEMMs, whose blocks compute norms; pairs of as many
// columns.
std::vector<FusionFacts> AllGrouped(const CheckedProgram& program) {
  std::vector<FusionFacts> facts(program.ops().size());
  for (size_t op = 0; op < facts.size(); ++op) {
    if (program.ops()[op].kind != OpKind::kGemm) continue;
    const int64_t result = program.result_of(static_cast<int64_t>(op));
    facts[op] = {0, true, program.values()[result].width};
  }
  return facts;
}

// An op by its number; one that others read too has a * behind it.
std::string Stored(int64_t op, bool stores) {
  return absl::StrCat(op, stores ? "*" : "");
}

// "norm 2; 3 awaited 5; 4 6*<0 pair 0": the norm's op, then each GEMM with its
// epilogue, and the place of the GEMM that an op waits for.
std::string Describe(const FusedStep& step) {
  if (!step.is_grouped) {
    return absl::StrCat(step.gemms.empty() ? "rows " : "gemm ", step.first_op,
                        " + ", step.ops);
  }
  std::string text;
  if (step.norm != FusedStep::kNoNorm) text = absl::StrCat("norm ", step.norm);
  for (const GroupedGemmPart& gemm : step.gemms) {
    absl::StrAppend(&text, text.empty() ? "" : "; ",
                    Stored(gemm.op, gemm.stores),
                    gemm.is_awaited ? " awaited" : "");
    for (const EpiloguePart& part : gemm.epilogue) {
      absl::StrAppend(&text, " ", Stored(part.op, part.stores));
      if (part.awaited != EpiloguePart::kNothing) {
        absl::StrAppend(&text, "<", part.awaited);
      }
    }
    if (gemm.ends_for_pair) absl::StrAppend(&text, " for its pair");
    if (gemm.pair != EpiloguePart::kNothing) {
      absl::StrAppend(&text, " pair ", gemm.pair);
    }
  }
  return text;
}

std::vector<std::string> Fused(const CheckedProgram& program,
                               const std::vector<FusionFacts>& facts,
                               int64_t max_row_ops = 16) {
  std::vector<std::string> texts;
  for (const FusedStep& step : FuseSteps(program, facts, max_row_ops)) {
    texts.push_back(Describe(step));
  }
  return texts;
}

std::vector<std::string> Fused(const CheckedProgram& program) {
  return Fused(program, AllGrouped(program));
}

// o, add, norm, gate, up, silu, mul, down, add, norm, q, k, v.
TEST(FuseStepsTest, ALayerOfLlamaIsFourLaunches) {
  EXPECT_THAT(
      Fused(Checked(LlamaLayer(kShape, {NumberType::kBFloat16}))),
      ElementsAre("0 1*", "norm 2; 3 awaited 5* for its pair; 4 6*<0 pair 0",
                  "7 8*", "norm 9; 10*; 11*; 12*"));
}

TEST(FuseStepsTest, EveryOpIsInOneStepInOrder) {
  for (const WorkedProgram& worked :
       WorkedPrograms(kShape, {NumberType::kBFloat16})) {
    const CheckedProgram program = Checked(worked);
    int64_t next = 0;
    for (const FusedStep& step : FuseSteps(program, AllGrouped(program), 2)) {
      EXPECT_EQ(step.first_op, next) << worked.name;
      next += step.ops;
      int64_t parts = step.norm == FusedStep::kNoNorm ? 0 : 1;
      for (const GroupedGemmPart& gemm : step.gemms) {
        parts += 1 + static_cast<int64_t>(gemm.epilogue.size());
        for (const EpiloguePart& part : gemm.epilogue) {
          EXPECT_LT(part.awaited, &gemm - step.gemms.data()) << worked.name;
        }
      }
      EXPECT_TRUE(!step.is_grouped || parts == step.ops) << worked.name;
    }
    EXPECT_EQ(next, static_cast<int64_t>(program.ops().size()));
  }
}

TEST(FuseStepsTest, GemmsOfOtherKernelsAreApart) {
  const CheckedProgram program =
      Checked(LlamaLayer(kShape, {NumberType::kBFloat16}));
  std::vector<FusionFacts> facts = AllGrouped(program);
  facts[4].kernel = 1;                       // up
  facts[7].kernel = FusionFacts::kNoKernel;  // down
  facts[10].computes_norms = false;          // q
  EXPECT_THAT(Fused(program, facts),
              ElementsAre("0 1*", "norm 2; 3*", "gemm 4 + 1", "rows 5 + 2",
                          "gemm 7 + 1", "rows 8 + 2", "10*; 11*; 12*"));
}

// The residual of the layer's end is there before q, k and v; attention's rows
// come before the residual that o's are added to.
TEST(EarlyValuesTest, ALayerOfLlamaHasOneEachWay) {
  const CheckedProgram program =
      Checked(LlamaLayer(kShape, {NumberType::kBFloat16}));
  const std::vector<FusedStep> steps =
      FuseSteps(program, AllGrouped(program), 16);
  const int64_t residual = program.values()[program.result_of(8)].output;
  EXPECT_THAT(EarlyOutputs(program, steps),
              ElementsAre(GroupedOutput{residual, 2, 0}));
  EXPECT_EQ(FirstInput(program, steps), program.ops()[0].x);
}

TEST(EarlyValuesTest, NoneOfLaunchesThatAreNoGroups) {
  const CheckedProgram program =
      Checked(LlamaLayer(kShape, {NumberType::kBFloat16}));
  std::vector<FusionFacts> facts = AllGrouped(program);
  facts[0].kernel = FusionFacts::kNoKernel;  // o
  facts[7].kernel = FusionFacts::kNoKernel;  // down
  const std::vector<FusedStep> steps = FuseSteps(program, facts, 16);
  EXPECT_THAT(EarlyOutputs(program, steps), IsEmpty());
  EXPECT_EQ(FirstInput(program, steps), kNoValue);
}

// Programs of one operand, which w and v make 32 columns of.
class FuseSmallProgramTest : public ::testing::Test {
 protected:
  CheckedProgram Finish(const std::vector<ValueNumber>& outputs) {
    return Checked(
        {"small", draft_.Finish(outputs), {{"w", {32, 64}}, {"v", {32, 64}}}});
  }

  ProgramDraft draft_{NumberType::kBFloat16};
  const ValueNumber x_ = draft_.Input(NumberType::kBFloat16, 64);
};

TEST_F(FuseSmallProgramTest, AProductThatOthersReadIsStored) {
  const ValueNumber w = draft_.Gemm(x_, "w");
  const ValueNumber act = draft_.Act(w, Activation::kSigmoid);
  const ValueNumber mul = draft_.Mul(act, w);
  EXPECT_THAT(Fused(Finish({mul})), ElementsAre("0* 1 2*"));
}

TEST_F(FuseSmallProgramTest, ANumberAddedToItselfIsReadFromMemory) {
  const ValueNumber w = draft_.Gemm(x_, "w");
  EXPECT_THAT(Fused(Finish({draft_.Add(w, w)})), ElementsAre("0* 1*"));
}

TEST_F(FuseSmallProgramTest, AnEpilogueWaitsForGemmsBeforeItsOwnAlone) {
  const ValueNumber w = draft_.Gemm(x_, "w");
  const ValueNumber v = draft_.Gemm(x_, "v");
  const ValueNumber sum = draft_.Add(v, w);
  const ValueNumber act = draft_.Act(sum, Activation::kRelu);
  EXPECT_THAT(Fused(Finish({act})),
              ElementsAre("0* awaited for its pair; 1 2<0 3* pair 0"));
}

TEST_F(FuseSmallProgramTest, GemmsOfOtherClassesAreNoPair) {
  const ValueNumber w = draft_.Gemm(x_, "w");
  const ValueNumber v = draft_.Gemm(x_, "v");
  const CheckedProgram program = Finish({draft_.Add(v, w)});
  std::vector<FusionFacts> facts = AllGrouped(program);
  facts[1].pair_class = 7;
  EXPECT_THAT(Fused(program, facts), ElementsAre("0* awaited; 1 2*<0"));
}

TEST_F(FuseSmallProgramTest, WhatIsReadBesidesThePairIsStored) {
  const ValueNumber w = draft_.Gemm(x_, "w");
  const ValueNumber v = draft_.Gemm(x_, "v");
  const ValueNumber sum = draft_.Add(v, w);
  EXPECT_THAT(Fused(Finish({w, sum})),
              ElementsAre("0* awaited; 1 2*<0 pair 0"));
}

TEST_F(FuseSmallProgramTest, AnOperandThatALaterGemmMakesEndsTheStep) {
  const ValueNumber w = draft_.Gemm(x_, "w");
  const ValueNumber v = draft_.Gemm(x_, "v");
  const ValueNumber act = draft_.Act(v, Activation::kRelu);
  // Reads v, which act stands behind, in the epilogue of w.
  const ValueNumber sum = draft_.Add(w, v);
  EXPECT_THAT(Fused(Finish({act, sum})),
              ElementsAre("0*; 1* 2*", "rows 3 + 1"));
}

TEST_F(FuseSmallProgramTest, SlicesAndLongEpiloguesAreLaunchesOfTheirOwn) {
  ValueNumber value = draft_.Gemm(x_, "w");
  for (int i = 0; i <= kMaxEpilogueOps; ++i) {
    value = draft_.Act(value, Activation::kRelu);
  }
  EXPECT_THAT(Fused(Finish({draft_.Slice(value, 4, 8)})),
              ElementsAre("0 1 2 3 4*", "rows 5 + 2"));
}

}  // namespace
}  // namespace qgemm::cuda
