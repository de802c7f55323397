// SPDX-License-Identifier: Apache-2.0
//
// Programs of the builder against the same ones written by number.

#include "kernels/programs/program_builder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/programs/canonical_text.h"
#include "kernels/programs/checked_program.h"
#include "tests/support/program_layers.h"

namespace qgemm {
namespace {

constexpr float kEps = 1e-5f;

// EveryOp of program_layers.h, its constants declared where they are read.
Program BuildEveryOp() {
  ProgramBuilder builder(NumberType::kFloat32);
  const RowsHandle a = builder.Input(8, {"a", NumberType::kFloat16});
  const RowsHandle up = builder.Gemm(a, "up");
  const RowsHandle x = builder.Input(8);
  const RowsHandle gated = builder.Mul(builder.Act(up, Activation::kSilu), up);
  const RowsHandle sum = builder.Add(x, builder.Gemm(gated, "down", {"down"}));
  const ConstantHandle weight = builder.Constant(Slopes(8));
  const RowsHandle runs = builder.RmsNorm(sum, weight, kEps, 4);
  const ConstantHandle bias =
      builder.Constant(Ones(8), {"", NumberType::kBFloat16});
  const RowsHandle norm = builder.LayerNorm(runs, weight, bias, kEps);
  const RowsHandle clamped = builder.Clamp(norm, -1, 1);
  const RowsHandle columns = builder.Slice(clamped, 2, 4);
  builder.Output(builder.Convert(columns, NumberType::kFloat16, "half"));
  const TopKHandles best = builder.TopK(clamped, 3);
  builder.Output(best.values);
  builder.Output(best.ids);
  return builder.Build();
}

TEST(ProgramBuilderTest, NumbersValuesInAnyOrderOfDeclaration) {
  const WorkedProgram worked = EveryOp();
  const ProgramWeightsMap shapes = ShapesOf(worked);
  const auto built = CheckProgram(BuildEveryOp(), shapes);
  ASSERT_TRUE(built.ok()) << built.status();
  const auto written = CheckProgram(worked.program, shapes);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(CanonicalText(*built), CanonicalText(*written));
}

TEST(ProgramBuilderTest, KeepsNames) {
  const Program program = BuildEveryOp();
  EXPECT_EQ(program.inputs[0].name, "a");
  EXPECT_EQ(program.ops[0].name, "");
  EXPECT_EQ(program.ops[3].name, "down");
  EXPECT_EQ(program.ops[9].name, "half");
}

TEST(ProgramBuilderTest, AddsAndMultipliesByConstantsAndNumbersOfARow) {
  ProgramBuilder builder(NumberType::kFloat32);
  const RowsHandle x = builder.Input(4);
  const RowsHandle number = builder.Input(1);
  const ConstantHandle row = builder.Constant({1, 2, 3, 4});
  const RowsHandle scaled = builder.Mul(builder.Add(x, row), number);
  builder.Output(builder.Add(builder.Mul(scaled, row), x));
  const Program program = builder.Build();
  EXPECT_TRUE(CheckProgram(program, {}).ok());
  EXPECT_EQ(program.ops[0].y, 2);
  EXPECT_EQ(program.ops[1].y, 1);
  EXPECT_EQ(program.ops[2].y, 2);
  EXPECT_EQ(program.ops[3].y, 0);
  EXPECT_EQ(program.outputs, std::vector<ValueNumber>{6});
}

TEST(ProgramBuilderTest, SetsPrecisionAndLeavesAbsentOperandsOut) {
  ProgramBuilder builder(NumberType::kFloat32);
  const RowsHandle product =
      builder.Gemm(builder.Input(8), "w", {"", NumberType::kFloat16},
                   {ComputeMode::kA32, FloatType::kFloat16});
  const RowsHandle norm = builder.RmsNorm(product, {}, kEps);
  builder.Output(builder.LayerNorm(norm, {}, {}, kEps));
  const Program program = builder.Build();
  EXPECT_EQ(program.ops[0].mode, ComputeMode::kA32);
  EXPECT_EQ(program.ops[0].rounding, FloatType::kFloat16);
  EXPECT_EQ(program.ops[0].type, NumberType::kFloat16);
  EXPECT_EQ(program.ops[1].norm_weight, kNoValue);
  EXPECT_EQ(program.ops[2].norm_weight, kNoValue);
  EXPECT_EQ(program.ops[2].norm_bias, kNoValue);
}

TEST(ProgramBuilderTest, RoundsConstantsAndTakesTheirBytes) {
  ProgramBuilder builder(NumberType::kBFloat16);
  builder.Constant({1.0f + 0x1p-8f, 1.0f + 0x3p-8f});
  builder.ConstantBytes({1, 2, 3, 4}, {"raw", NumberType::kFloat32});
  const Program program = builder.Build();
  EXPECT_EQ(program.constants[0].bytes,
            (std::vector<uint8_t>{0x80, 0x3f, 0x82, 0x3f}));
  EXPECT_EQ(program.constants[1].width(), 1);
  EXPECT_EQ(program.constants[1].name, "raw");
}

TEST(ProgramBuilderTest, LeavesMistakesToTheCheck) {
  ProgramBuilder builder(NumberType::kFloat32);
  builder.Input(4);
  builder.Output(builder.Convert(RowsHandle(), NumberType::kFloat16));
  EXPECT_EQ(CheckProgram(builder.Build(), {}).status().message(),
            "op 0 (convert): x is not set");
}

}  // namespace
}  // namespace qgemm
