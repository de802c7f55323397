// SPDX-License-Identifier: Apache-2.0
//
// Programs of known models and of texts, with the weights that options give.

#include "bench/bench_program.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr char kText[] = R"(
    revision: 1
    value_type: NUMBER_TYPE_BF16
    inputs { width: 64 }
    constants { name: "norm" }
    ops { rms_norm { x: 0 weight: 1 eps: 1e-5 } }
    ops { gemm { x: 2 weights: "up" } }
    ops { act { x: 3 kind: KIND_SILU } }
    ops { gemm { x: 4 weights: "down" } }
    outputs: 5)";

ProgramSource Source() {
  return {"a file", kText, "up=64x96,down=96x64:q4_0", "kbit4", "norm=64"};
}

TEST(KnownProgramTest, EachIsLegalOverItsWeights) {
  for (const std::string& name : KnownPrograms()) {
    const auto program = KnownProgram(name, "kbit3");
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(program->name, name);
    const auto checked = Check(*program);
    EXPECT_TRUE(checked.ok()) << name << ": " << checked.status();
    for (const auto& [weights, layer] : program->weights) {
      EXPECT_EQ(layer.format, "kbit3") << weights;
    }
  }
}

TEST(KnownProgramTest, ALayerHasSevenProductsAndTheHeadOne) {
  EXPECT_EQ(
      Check(*KnownProgram("llama3-8b-layer", "kbit4"))->weights_ids().size(),
      7);
  EXPECT_EQ(
      Check(*KnownProgram("llama3-8b-head", "kbit4"))->weights_ids().size(), 1);
}

TEST(KnownProgramTest, OthersAreNotFound) {
  for (const char* name : {"llama3-8b", "llama3-8b-tail", "llama9-layer", ""}) {
    EXPECT_TRUE(absl::IsNotFound(KnownProgram(name, "kbit4").status())) << name;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      KnownProgram("llama3-8b-layer", "kbit9").status()));
}

TEST(ParseBenchProgramTest, WeightsAndConstantsComeOfTheOptions) {
  const auto program = ParseBenchProgram(Source());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->name, "a file");
  EXPECT_EQ(program->weights.at("up").format, "kbit4");
  EXPECT_EQ(program->weights.at("up").shape.n, 96);
  EXPECT_EQ(program->weights.at("down").format, "q4_0");
  const auto checked = Check(*program);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->input_row_bytes(), 128);
  EXPECT_EQ(checked->constant_bytes(), 128);
}

struct Refusal {
  std::string ProgramSource::*member;
  std::string text;
  std::string names;  // held by the message
};

TEST(ParseBenchProgramTest, RefusalsNameTheOptionAndThePiece) {
  for (const Refusal& each : {
           Refusal{&ProgramSource::weights, "up=64", "up=64"},
           {&ProgramSource::weights, "up", "--program_weights"},
           {&ProgramSource::weights, "=64x64", "NAME=VALUE"},
           {&ProgramSource::weights, "up=64x64,up=64x64", "twice"},
           {&ProgramSource::weights, "up=64x64:kbit9", "kbit9"},
           {&ProgramSource::weights, "up=64x64:", "--program_weights"},
           {&ProgramSource::constants, "norm=x", "norm=x"},
           {&ProgramSource::constants, "norm=0", "1 to"},
           {&ProgramSource::constants, "bias=64", "bias"},
           {&ProgramSource::text, "ops", "line 1"},
       }) {
    ProgramSource source = Source();
    source.*each.member = each.text;
    const absl::Status status = ParseBenchProgram(source).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << each.text << ": " << status;
    EXPECT_TRUE(absl::StrContains(status.message(), each.names)) << status;
  }
}

TEST(ParseBenchProgramTest, TheCheckFindsWeightsThatNoOptionHas) {
  ProgramSource source = Source();
  source.weights = "up=64x96";
  const auto program = ParseBenchProgram(source);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(absl::IsNotFound(Check(*program).status()));
}

}  // namespace
}  // namespace qgemm
