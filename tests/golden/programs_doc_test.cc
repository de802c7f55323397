// SPDX-License-Identifier: Apache-2.0
//
// Canonical texts and ids of programs: the worked layer of docs/programs.md,
// read from the page itself, and a text of every op. The ids are by Python's
// hashlib.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/programs/canonical_text.h"
#include "kernels/programs/checked_program.h"
#include "tests/golden/golden_file.h"
#include "tests/support/program_layers.h"

namespace qgemm {
namespace {

CheckedProgram Checked(const WorkedProgram& worked) {
  absl::StatusOr<CheckedProgram> checked =
      CheckProgram(worked.program, ShapesOf(worked));
  CHECK(checked.ok()) << checked.status();
  return *std::move(checked);
}

// The page's `program` block: a text, then "id: " and the id.
std::pair<std::string, std::string> TextAndIdOfPage() {
  const absl::StatusOr<std::string> page = ReadWholeFile("docs/programs.md");
  CHECK(page.ok()) << page.status();
  const std::pair<std::string, std::string> behind =
      absl::StrSplit(*page, absl::MaxSplits("```program\n", 1));
  const std::pair<std::string, std::string> block =
      absl::StrSplit(behind.second, absl::MaxSplits("\n```", 1));
  return absl::StrSplit(block.first, absl::MaxSplits("id: ", 1));
}

constexpr LayerShape kLlama3 = {4096, 4096, 1024, 128, 14336};

TEST(ProgramsDocTest, TheWorkedLayerHasItsTextAndId) {
  const auto [text, id] = TextAndIdOfPage();
  const CheckedProgram program = Checked(LlamaLayer(kLlama3, {}, Ones));
  EXPECT_EQ(CanonicalText(program), text);
  EXPECT_EQ(ProgramId(program), id);
}

TEST(ProgramsDocTest, TheWorkedLayerHasTheSizesThatThePageSays) {
  const CheckedProgram program = Checked(LlamaLayer(kLlama3, {}, Ones));
  EXPECT_EQ(program.input_row_bytes(), 24 << 10);
  EXPECT_EQ(program.output_row_bytes(), 28 << 10);
  EXPECT_EQ(program.scratch_row_bytes(), 100 << 10);
}

TEST(CanonicalTextTest, HasTheFieldsOfEveryOp) {
  const std::string up = WeightsIdOf("up");
  const std::string down = WeightsIdOf("down");
  EXPECT_EQ(
      CanonicalText(Checked(EveryOp())),
      absl::StrCat(
          "qgemm-program-v1\n"
          "revision=1\n"
          "input fp16 8\n"
          "input fp32 8\n"
          "constant fp32 8 "
          "b68c61f11fc92e8e5c1768c96581e083e8dac390fa0be937c96c7d5b83ebd092\n"
          "constant bf16 8 "
          "561dd70e7ee5dfbe88d2705746ee56d11d24ed6c18e32e45050ad8814e119d62\n"
          "gemm fp32 x=0 weights=",
          up,
          " mode=A16 rounding=bf16\n"
          "act fp32 x=4 activation=silu\n"
          "mul fp32 x=5 y=4\n"
          "gemm fp32 x=6 weights=",
          down,
          " mode=A16 rounding=bf16\n"
          "add fp32 x=1 y=7\n"
          "rms_norm fp32 x=8 weight=2 eps=3727c5ac group=4\n"
          "layer_norm fp32 x=9 weight=2 bias=3 eps=3727c5ac\n"
          "clamp fp32 x=10 low=bf800000 high=3f800000\n"
          "slice fp32 x=11 begin=2 width=4\n"
          "convert fp16 x=12\n"
          "top_k fp32 x=11 k=3\n"
          "output 13\n"
          "output 14\n"
          "output 15\n"));
  EXPECT_EQ(ProgramId(Checked(EveryOp())),
            "578638b33d0c06d1ce92bfead42a7a29b1fe2ab1dda1d68973e4b2766a6da2ab");
}

TEST(CanonicalTextTest, LeavesAnAbsentWeightOut) {
  WorkedProgram worked = EveryOp();
  worked.program.ops[5].norm_weight = kNoValue;
  EXPECT_NE(CanonicalText(Checked(worked))
                .find("\nrms_norm fp32 x=8 eps=3727c5ac group=4\n"),
            std::string::npos);
}

TEST(ProgramIdTest, DoesNotDependOnNames) {
  const WorkedProgram worked = EveryOp();
  Program named = worked.program;
  named.inputs[0].name = "attention";
  named.constants[1].name = "bias";
  named.ops[0].name = "up";
  named.ops[0].weights = "layer0/up";
  ProgramWeightsMap shapes = ShapesOf(worked);
  shapes["layer0/up"] = shapes["up"];
  const auto program = CheckProgram(named, shapes);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(ProgramId(*program), ProgramId(Checked(worked)));
}

TEST(ProgramIdTest, IsAnotherForOtherWeightsAndConstants) {
  const WorkedProgram worked = EveryOp();
  const std::string id = ProgramId(Checked(worked));
  ProgramWeightsMap moved = ShapesOf(worked);
  moved["up"].id = WeightsIdOf("another");
  EXPECT_NE(ProgramId(*CheckProgram(worked.program, moved)), id);
  WorkedProgram other_bits = worked;
  other_bits.program.constants[0].bytes[0] ^= 1;
  EXPECT_NE(ProgramId(Checked(other_bits)), id);
}

}  // namespace
}  // namespace qgemm
