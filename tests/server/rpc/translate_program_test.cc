// SPDX-License-Identifier: Apache-2.0
//
// A message of every op gives the program that the tests of kernels/programs
// write by hand; what no program can say is refused.

#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>

#include <cctype>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/programs/canonical_text.h"
#include "kernels/programs/checked_program.h"
#include "server/rpc/translate.h"
#include "tests/support/program_layers.h"

namespace qgemm {
namespace {

constexpr char kEveryOp[] = R"pb(
  revision: 1
  value_type: NUMBER_TYPE_FP32
  inputs { type: NUMBER_TYPE_FP16 width: 8 }
  inputs { name: "x" width: 8 }
  constants {}
  constants { type: NUMBER_TYPE_BF16 }
  ops { gemm { x: 0 weights: "up" } }
  ops { act { x: 4 kind: KIND_SILU } }
  ops { mul { x: 5 y: 4 } }
  ops {
    name: "down"
    gemm { x: 6 weights: "down" mode: MODE_A16 }
  }
  ops { add { x: 1 y: 7 } }
  ops { rms_norm { x: 8 weight: 2 eps: 1e-5 group: 4 } }
  ops { layer_norm { x: 9 weight: 2 bias: 3 eps: 1e-5 } }
  ops { clamp { x: 10 low: -1 high: 1 } }
  ops { slice { x: 11 begin: 2 width: 4 } }
  ops {
    type: NUMBER_TYPE_FP16
    convert { x: 12 }
  }
  ops { top_k { x: 11 k: 3 } }
  outputs: [ 13, 14, 15 ]
)pb";

v1::Program EveryOpMessage() {
  v1::Program message;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(kEveryOp, &message));
  const Program program = EveryOp().program;
  for (int i = 0; i < 2; ++i) {
    const std::vector<uint8_t>& bytes = program.constants[i].bytes;
    message.mutable_constants(i)->set_values(bytes.data(), bytes.size());
  }
  return message;
}

TEST(ToProgramTest, GivesEveryOpWithDefaultsFilledIn) {
  const auto program = ToProgram(EveryOpMessage());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->inputs[1].name, "x");
  EXPECT_EQ(program->ops[3].name, "down");
  const WorkedProgram worked = EveryOp();
  const ProgramWeightsMap shapes = ShapesOf(worked);
  const auto checked = CheckProgram(*program, shapes);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(CanonicalText(*checked),
            CanonicalText(*CheckProgram(worked.program, shapes)));
}

TEST(ToProgramTest, TakesEnumeratorsAsTheyAreNamed) {
  v1::Program message = EveryOpMessage();
  v1::Program::Gemm* gemm = message.mutable_ops(3)->mutable_gemm();
  gemm->set_rounding(v1::NUMBER_TYPE_FP16);
  gemm->set_mode(v1::Program::Gemm::MODE_A32);
  EXPECT_EQ(ToProgram(message)->ops[3].rounding, FloatType::kFloat16);
  EXPECT_EQ(ToProgram(message)->ops[3].mode, ComputeMode::kA32);
  gemm->set_mode(v1::Program::Gemm::MODE_A8);
  EXPECT_EQ(ToProgram(message)->ops[3].mode, ComputeMode::kA8);
  // The names of both agree up to case, so that none is crossed.
  for (int kind = 1; kind < v1::Program::Act::Kind_ARRAYSIZE; ++kind) {
    const auto named = static_cast<v1::Program::Act::Kind>(kind);
    message.mutable_ops(1)->mutable_act()->set_kind(named);
    const auto program = ToProgram(message);
    ASSERT_TRUE(program.ok()) << program.status();
    std::string name = v1::Program::Act::Kind_Name(named).substr(5);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(Name(program->ops[1].activation), name);
  }
}

TEST(ToProgramTest, LeavesAbsentNormOperandsOut) {
  v1::Program message = EveryOpMessage();
  message.mutable_ops(5)->mutable_rms_norm()->clear_weight();
  message.mutable_ops(6)->mutable_layer_norm()->clear_bias();
  const auto program = ToProgram(message);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->ops[5].norm_weight, kNoValue);
  EXPECT_EQ(program->ops[6].norm_weight, 2);
  EXPECT_EQ(program->ops[6].norm_bias, kNoValue);
}

TEST(ToProgramTest, KeepsCountsBeyondInt64Huge) {
  v1::Program message = EveryOpMessage();
  message.mutable_inputs(0)->set_width(~uint64_t{0});
  EXPECT_EQ(ToProgram(message)->inputs[0].width,
            std::numeric_limits<int64_t>::max());
}

// An edit of the message and the status that it gives.
struct Refusal {
  const char* status;
  void (*edit)(v1::Program* message);
};

void AddUnknownField(google::protobuf::Message* message) {
  message->GetReflection()->MutableUnknownFields(message)->AddVarint(99, 1);
}

const Refusal kRefusals[] = {
    {"UNIMPLEMENTED: program: revision = 2; the latest known is 1",
     [](v1::Program* p) {
       p->set_revision(2);
       AddUnknownField(p);
     }},
    {"INVALID_ARGUMENT: program: revision = 0; the first is 1",
     [](v1::Program* p) { p->clear_revision(); }},
    {"UNIMPLEMENTED: program: field 99 is unknown; this server knows revision "
     "1",
     [](v1::Program* p) { AddUnknownField(p); }},
    {"UNIMPLEMENTED: program.constants[1]: field 99 is unknown; this server "
     "knows revision 1",
     [](v1::Program* p) { AddUnknownField(p->mutable_constants(1)); }},
    {"UNIMPLEMENTED: program.ops[5].rms_norm: field 99 is unknown; this server "
     "knows revision 1",
     [](v1::Program* p) {
       AddUnknownField(p->mutable_ops(5)->mutable_rms_norm());
     }},
    {"INVALID_ARGUMENT: input 1: type is not set, nor is the program's "
     "value_type",
     [](v1::Program* p) { p->clear_value_type(); }},
    {"INVALID_ARGUMENT: program: value_type = 4: must be FP32 (1), FP16 (2), "
     "BF16 (3) or not set",
     [](v1::Program* p) { p->set_value_type(v1::NUMBER_TYPE_INT32); }},
    {"INVALID_ARGUMENT: constant 0: type = 9 is not a NumberType",
     [](v1::Program* p) {
       p->mutable_constants(0)->set_type(static_cast<v1::NumberType>(9));
     }},
    {"INVALID_ARGUMENT: op 4: no kind is set",
     [](v1::Program* p) { p->mutable_ops(4)->clear_kind(); }},
    {"INVALID_ARGUMENT: op 1: act.kind = 0: must be an activation, 1 to 6",
     [](v1::Program* p) { p->mutable_ops(1)->mutable_act()->clear_kind(); }},
    {"INVALID_ARGUMENT: op 0: mode = 7: must be A16 (1), A8 (2) or A32 (3)",
     [](v1::Program* p) {
       p->mutable_ops(0)->mutable_gemm()->set_mode(
           static_cast<v1::Program::Gemm::Mode>(7));
     }},
    {"INVALID_ARGUMENT: op 0: rounding = 1: must be FP16 (2) or BF16 (3)",
     [](v1::Program* p) {
       p->mutable_ops(0)->mutable_gemm()->set_rounding(v1::NUMBER_TYPE_FP32);
     }},
};

TEST(ToProgramTest, RefusesWhatNoProgramCanSay) {
  for (const Refusal& refusal : kRefusals) {
    v1::Program message = EveryOpMessage();
    refusal.edit(&message);
    EXPECT_EQ(ToProgram(message).status().ToString(), refusal.status);
  }
}

}  // namespace
}  // namespace qgemm
