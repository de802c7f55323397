// SPDX-License-Identifier: Apache-2.0
//
// Every refusal of the check with its whole message, and what it finds out
// about a program that it takes.

#include "kernels/programs/checked_program.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/program_layers.h"

namespace qgemm {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// EveryOp:
//   values 0 a fp16 8, 1 x fp32 8, 2 weight fp32 8, 3 bias bf16 8, and
//   op       0 gemm up  1 silu  2 mul  3 gemm down  4 add  5 rms_norm
//   result   4 (16)     5 (16)  6 (16) 7 (8)        8 (8)  9 (8)
//   op       6 layer_norm  7 clamp  8 slice  9 convert    10 top_k
//   result   10 (8)        11 (8)   12 (4)   13 (4) fp16  14 and 15 (3)
// One edit of it, and the status that the check gives then.
struct Refusal {
  const char* status;
  void (*edit)(Program* program);
};

void PrintTo(const Refusal& refusal, std::ostream* stream) {
  *stream << refusal.status;
}

void AppendUnreadAct(Program* program, ValueNumber x) {
  ProgramOp op;
  op.kind = OpKind::kAct;
  op.x = x;
  program->ops.push_back(op);
}

// 64 more ops, each of which reads the one before.
void AppendManyOps(Program* program) {
  for (int64_t i = 0; i < 64; ++i)
    AppendUnreadAct(program, i == 0 ? 11 : 15 + i);
  program->outputs.push_back(79);
}

// Widths of a legal size whose results take more than a row's scratch.
void Widen(Program* program) {
  program->inputs = {{"", NumberType::kFloat32, 1 << 20}};
  program->constants.clear();
  program->ops.clear();
  AppendUnreadAct(program, 0);
  AppendUnreadAct(program, 1);
  AppendUnreadAct(program, 2);
  program->outputs = {3};
}

const Refusal kRefusals[] = {
    {"UNIMPLEMENTED: program: revision = 2; the latest known is 1",
     [](Program* p) { p->revision = 2; }},
    {"INVALID_ARGUMENT: program: revision = 0; the first is 1",
     [](Program* p) { p->revision = 0; }},
    {"INVALID_ARGUMENT: program: no inputs",
     [](Program* p) { p->inputs.clear(); }},
    {"INVALID_ARGUMENT: program: no ops", [](Program* p) { p->ops.clear(); }},
    {"INVALID_ARGUMENT: program: no outputs",
     [](Program* p) { p->outputs.clear(); }},
    {"INVALID_ARGUMENT: program: 75 ops; at most 64", AppendManyOps},

    // Inputs and constants.
    {"INVALID_ARGUMENT: input 0: width = 0: must be 1 to 1048576",
     [](Program* p) { p->inputs[0].width = 0; }},
    {"INVALID_ARGUMENT: input 1: width = -8: must be 1 to 1048576",
     [](Program* p) { p->inputs[1].width = -8; }},
    {"INVALID_ARGUMENT: input 0: width = 9223372036854775807: must be 1 to "
     "1048576",
     [](Program* p) { p->inputs[0].width = kHuge; }},
    {"INVALID_ARGUMENT: input 0: type = int32: must be fp32, fp16 or bf16",
     [](Program* p) { p->inputs[0].type = NumberType::kInt32; }},
    {"INVALID_ARGUMENT: input 0: type = ?: must be fp32, fp16 or bf16",
     [](Program* p) { p->inputs[0].type = NumberType{99}; }},
    {"INVALID_ARGUMENT: input 0: name has 129 bytes; at most 128",
     [](Program* p) { p->inputs[0].name = std::string(129, 'a'); }},
    {"INVALID_ARGUMENT: input 0: name = \"a\\x1b\"; it may have the characters "
     "A-Za-z0-9._/- only",
     [](Program* p) { p->inputs[0].name = "a\x1b"; }},
    {"INVALID_ARGUMENT: input 0: no op reads it",
     [](Program* p) { p->ops[0].x = 1; }},
    {"INVALID_ARGUMENT: constant 1: type = int32: must be fp32, fp16 or bf16",
     [](Program* p) { p->constants[1].type = NumberType::kInt32; }},
    {"INVALID_ARGUMENT: constant 0: width = 0: must be 1 to 1048576",
     [](Program* p) { p->constants[0].bytes.clear(); }},
    {"INVALID_ARGUMENT: constant 0: 33 bytes are no whole number of fp32",
     [](Program* p) { p->constants[0].bytes.push_back(0); }},
    {"INVALID_ARGUMENT: constants: 1048592 bytes in all; at most 1048576",
     [](Program* p) { p->constants[0].bytes.resize(1 << 20); }},
    {"INVALID_ARGUMENT: constant 1: no op reads value 3",
     [](Program* p) { p->ops[6].norm_bias = kNoValue; }},

    // Fields that every op has.
    {"INVALID_ARGUMENT: op 1 (?): kind 99 is unknown",
     [](Program* p) { p->ops[1].kind = OpKind{99}; }},
    {"INVALID_ARGUMENT: op 1 (?): activation is unknown",
     [](Program* p) { p->ops[1].activation = Activation{99}; }},
    {"INVALID_ARGUMENT: op 0 (gemm): mode is unknown",
     [](Program* p) { p->ops[0].mode = ComputeMode{99}; }},
    {"INVALID_ARGUMENT: op 0 (gemm): rounding is unknown",
     [](Program* p) { p->ops[0].rounding = FloatType{99}; }},
    {"INVALID_ARGUMENT: op 4 (add): type = int32: must be fp32, fp16 or bf16",
     [](Program* p) { p->ops[4].type = NumberType::kInt32; }},
    {"INVALID_ARGUMENT: op 2: name = \"a b\"; it may have the characters "
     "A-Za-z0-9._/- only",
     [](Program* p) { p->ops[2].name = "a b"; }},
    {"INVALID_ARGUMENT: op 2 (mul f): y is not set",
     [](Program* p) {
       p->ops[2].name = "f";
       p->ops[2].y = kNoValue;
     }},
    {"INVALID_ARGUMENT: op 1 (silu): x is not set",
     [](Program* p) { p->ops[1].x = kNoValue; }},
    {"INVALID_ARGUMENT: op 1 (silu): act has no y; it must not be set",
     [](Program* p) { p->ops[1].y = 0; }},
    {"INVALID_ARGUMENT: op 4 (add): add has no weights; it must not be set",
     [](Program* p) { p->ops[4].weights = "up"; }},
    {"INVALID_ARGUMENT: op 5 (rms_norm): rms_norm has no bias; it must not be "
     "set",
     [](Program* p) { p->ops[5].norm_bias = 3; }},
    {"INVALID_ARGUMENT: op 7 (clamp): clamp has no eps; it must not be set",
     [](Program* p) { p->ops[7].eps = kNan; }},
    {"INVALID_ARGUMENT: op 9 (convert): convert has no k; it must not be set",
     [](Program* p) { p->ops[9].top_k = 1; }},
    {"INVALID_ARGUMENT: op 6 (layer_norm): layer_norm has no group; it must "
     "not be set",
     [](Program* p) { p->ops[6].group = 8; }},

    // Operands.
    {"INVALID_ARGUMENT: op 2 (mul): y = 6: the values before this op are 0 to "
     "5",
     [](Program* p) { p->ops[2].y = 6; }},
    {"INVALID_ARGUMENT: op 2 (mul): x = -2: the values before this op are 0 to "
     "5",
     [](Program* p) { p->ops[2].x = -2; }},
    {"INVALID_ARGUMENT: op 2 (mul): x = 9223372036854775807: the values before "
     "this op are 0 to 5",
     [](Program* p) { p->ops[2].x = kHuge; }},
    {"INVALID_ARGUMENT: op 4 (add): x is value 2, a constant; must be an input "
     "or a result",
     [](Program* p) { p->ops[4].x = 2; }},
    {"INVALID_ARGUMENT: op 5 (rms_norm): weight is value 1; must be a constant",
     [](Program* p) { p->ops[5].norm_weight = 1; }},
    {"INVALID_ARGUMENT: op 6 (layer_norm): bias is value 9; must be a constant",
     [](Program* p) { p->ops[6].norm_bias = 9; }},
    {"INVALID_ARGUMENT: op 11 (silu): value 15 has type int32; ops compute "
     "with fp32, fp16 and bf16",
     [](Program* p) { AppendUnreadAct(p, 15); }},

    // GEMM.
    {"INVALID_ARGUMENT: op 3 (gemm layer3/down): value 4 has width 16; weights "
     "up has k = 8",
     [](Program* p) {
       p->ops[3].name = "layer3/down";
       p->ops[3].weights = "up";
       p->ops[3].x = 4;
     }},
    {"INVALID_ARGUMENT: op 0 (gemm): weights is not set",
     [](Program* p) { p->ops[0].weights.clear(); }},
    {"INVALID_ARGUMENT: op 0 (gemm): weights = \"\\n\"; it may have the "
     "characters A-Za-z0-9._/- only",
     [](Program* p) { p->ops[0].weights = "\n"; }},
    {"NOT_FOUND: op 0 (gemm): weights layer3/up are not loaded",
     [](Program* p) { p->ops[0].weights = "layer3/up"; }},
    {"UNIMPLEMENTED: op 0 (gemm): mode A8 is defined for Q4_0 weights; weights "
     "up offer A16",
     [](Program* p) { p->ops[0].mode = ComputeMode::kA8; }},
    {"UNIMPLEMENTED: op 0 (gemm): mode A32 needs weights whose codes are "
     "integers; weights up offer A16",
     [](Program* p) { p->ops[0].mode = ComputeMode::kA32; }},
    {"INVALID_ARGUMENT: op 3 (gemm): rounding = fp32: must be bf16 or fp16",
     [](Program* p) { p->ops[3].rounding = FloatType::kFloat32; }},
    {"INVALID_ARGUMENT: op 0 (gemm): rounding = fp16: value 0 is fp16 in mode "
     "A16; only fp32 in mode A16 is rounded",
     [](Program* p) { p->ops[0].rounding = FloatType::kFloat16; }},

    // Row-wise ops.
    {"INVALID_ARGUMENT: op 2 (mul): value 0 has width 8; must be 16 or 1",
     [](Program* p) { p->ops[2].y = 0; }},
    {"INVALID_ARGUMENT: op 4 (add): value 4 has width 16; must be 8 or 1",
     [](Program* p) { p->ops[4].y = 4; }},
    {"INVALID_ARGUMENT: op 7 (clamp): low = 2, high = 1: low must be a number "
     "up to high",
     [](Program* p) { p->ops[7].low = 2; }},
    {"INVALID_ARGUMENT: op 7 (clamp): low = -1, high = nan: low must be a "
     "number up to high",
     [](Program* p) { p->ops[7].high = kNan; }},
    {"INVALID_ARGUMENT: op 5 (rms_norm): eps = -1: must be finite and 0 or "
     "more",
     [](Program* p) { p->ops[5].eps = -1; }},
    {"INVALID_ARGUMENT: op 5 (rms_norm): eps = nan: must be finite and 0 or "
     "more",
     [](Program* p) { p->ops[5].eps = kNan; }},
    {"INVALID_ARGUMENT: op 6 (layer_norm): eps = inf: must be finite and 0 or "
     "more",
     [](Program* p) { p->ops[6].eps = kInfinity; }},
    {"INVALID_ARGUMENT: op 5 (rms_norm): value 8 has width 8; group = 3 does "
     "not divide it",
     [](Program* p) { p->ops[5].group = 3; }},
    {"INVALID_ARGUMENT: op 5 (rms_norm): group = 16: must be 0 to 8",
     [](Program* p) { p->ops[5].group = 16; }},
    {"INVALID_ARGUMENT: op 5 (rms_norm): group = -4: must be 0 to 8",
     [](Program* p) { p->ops[5].group = -4; }},
    {"INVALID_ARGUMENT: op 5 (rms_norm): value 2 has width 2; must be 8 or 4",
     [](Program* p) { p->constants[0].bytes.resize(8); }},
    {"INVALID_ARGUMENT: op 6 (layer_norm): value 3 has width 7; must be 8",
     [](Program* p) { p->constants[1].bytes.resize(14); }},
    {"INVALID_ARGUMENT: op 8 (slice): begin = 5, width = 4: value 11 has width "
     "8",
     [](Program* p) { p->ops[8].begin = 5; }},
    {"INVALID_ARGUMENT: op 8 (slice): begin = 9223372036854775807, width = 4: "
     "value 11 has width 8",
     [](Program* p) { p->ops[8].begin = kHuge; }},
    {"INVALID_ARGUMENT: op 8 (slice): begin = 2, width = 9223372036854775807: "
     "value 11 has width 8",
     [](Program* p) { p->ops[8].width = kHuge; }},
    {"INVALID_ARGUMENT: op 8 (slice): begin = -1, width = 4: value 11 has "
     "width 8",
     [](Program* p) { p->ops[8].begin = -1; }},
    {"INVALID_ARGUMENT: op 8 (slice): begin = 2, width = 0: value 11 has width "
     "8",
     [](Program* p) { p->ops[8].width = 0; }},
    {"INVALID_ARGUMENT: op 10 (top_k): k = 9: value 11 has width 8",
     [](Program* p) { p->ops[10].top_k = 9; }},
    {"INVALID_ARGUMENT: op 10 (top_k): k = 0: must be 1 to 1024",
     [](Program* p) { p->ops[10].top_k = 0; }},
    {"INVALID_ARGUMENT: op 10 (top_k): type = bf16: the values of top_k are "
     "fp32",
     [](Program* p) { p->ops[10].type = NumberType::kBFloat16; }},

    // Outputs, uses, scratch.
    {"INVALID_ARGUMENT: output 0 = 16: the values are 0 to 15",
     [](Program* p) { p->outputs[0] = 16; }},
    {"INVALID_ARGUMENT: output 1 = -1: the values are 0 to 15",
     [](Program* p) { p->outputs[1] = -1; }},
    {"INVALID_ARGUMENT: output 0: value 1 is no result of an op",
     [](Program* p) { p->outputs[0] = 1; }},
    {"INVALID_ARGUMENT: output 0: value 3 is no result of an op",
     [](Program* p) { p->outputs[0] = 3; }},
    {"INVALID_ARGUMENT: output 3: value 13 is output 0 already",
     [](Program* p) { p->outputs.push_back(13); }},
    {"INVALID_ARGUMENT: op 9 (convert): its result, value 13, is neither read "
     "nor an output",
     [](Program* p) { p->outputs.erase(p->outputs.begin()); }},
    {"INVALID_ARGUMENT: op 10 (top_k): its result, value 14, is neither read "
     "nor an output",
     [](Program* p) { p->outputs = {13}; }},
    {"INVALID_ARGUMENT: op 11 (silu): its result, value 16, is neither read "
     "nor an output",
     [](Program* p) { AppendUnreadAct(p, 11); }},
    {"INVALID_ARGUMENT: op 1 (silu): 8388608 bytes of results are alive in a "
     "row; at most 4194304",
     Widen},
};

class RefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesPlaceValueAndLimit) {
  WorkedProgram worked = EveryOp();
  GetParam().edit(&worked.program);
  const ProgramWeightsMap shapes = ShapesOf(EveryOp());
  EXPECT_EQ(CheckProgram(worked.program, shapes).status().ToString(),
            GetParam().status);
}

INSTANTIATE_TEST_SUITE_P(Table, RefusalTest, testing::ValuesIn(kRefusals));

CheckedProgram CheckedEveryOp() {
  const WorkedProgram worked = EveryOp();
  return *CheckProgram(worked.program, ShapesOf(worked));
}

TEST(CheckedProgramTest, KnowsWidthAndTypeOfEveryValue) {
  const CheckedProgram program = CheckedEveryOp();
  std::string values;
  for (const ProgramValue& value : program.values()) {
    absl::StrAppend(&values, Name(value.type), " ", value.width, ", ");
  }
  EXPECT_EQ(values,
            "fp16 8, fp32 8, fp32 8, bf16 8, "
            "fp32 16, fp32 16, fp32 16, fp32 8, fp32 8, fp32 8, fp32 8, "
            "fp32 8, fp32 4, fp16 4, fp32 3, int32 3, ");
}

TEST(CheckedProgramTest, KnowsMakerLastReaderAndPlaceAmongOutputs) {
  const CheckedProgram program = CheckedEveryOp();
  std::string facts;
  for (const ProgramValue& value : program.values()) {
    absl::StrAppend(&facts, value.made_by, ":", value.last_read, ":",
                    value.output, " ");
  }
  EXPECT_EQ(facts,
            "-1:0:-1 -1:4:-1 -1:6:-1 -1:6:-1 0:2:-1 1:2:-1 2:3:-1 3:4:-1 "
            "4:5:-1 5:6:-1 6:7:-1 7:10:-1 8:9:-1 9:-1:0 10:-1:1 10:-1:2 ");
  EXPECT_EQ(program.result_of(10), 14);
}

TEST(CheckedProgramTest, AddsUpTheBytesOfARow) {
  const CheckedProgram checked = CheckedEveryOp();
  EXPECT_EQ(checked.input_row_bytes(), 8 * 2 + 8 * 4);
  EXPECT_EQ(checked.output_row_bytes(), 4 * 2 + 3 * 4 + 3 * 4);
  EXPECT_EQ(checked.constant_bytes(), 8 * 4 + 8 * 2);
  // Three values of width 16 at the multiplication.
  EXPECT_EQ(checked.scratch_row_bytes(), 3 * 16 * 4);
}

TEST(CheckedProgramTest, ListsWeightsOnceByIdWhateverTheirNames) {
  WorkedProgram worked = EveryOp();
  ProgramWeightsMap shapes = ShapesOf(worked);
  // Two names of one layer: 16 -> 8 for both, after a gemm of its own.
  shapes["alias"] = shapes["down"];
  ProgramOp again = worked.program.ops[3];
  again.weights = "alias";
  worked.program.ops.push_back(again);
  worked.program.outputs.push_back(16);
  const auto checked = CheckProgram(worked.program, shapes);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->weights_ids(),
            (std::vector<std::string>{WeightsIdOf("up"), WeightsIdOf("down")}));
  EXPECT_EQ(checked->weights_of(0), 0);
  EXPECT_EQ(checked->weights_of(3), 1);
  EXPECT_EQ(checked->weights_of(11), 1);
}

TEST(CheckedProgramTest, GivesAGemmTheSignatureOfItsOperandAndResult) {
  WorkedProgram worked = EveryOp();
  worked.program.ops[3].rounding = FloatType::kFloat16;
  worked.program.ops[3].type = NumberType::kBFloat16;
  const auto checked = CheckProgram(worked.program, ShapesOf(worked));
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->signature_of(0),
            (MatmulSignature{FloatType::kFloat16, FloatType::kFloat32}));
  EXPECT_EQ(checked->signature_of(3),
            (MatmulSignature{FloatType::kFloat32, FloatType::kBFloat16,
                             ComputeMode::kA16, FloatType::kFloat16}));
}

TEST(CheckedProgramTest, TakesModesThatTheWeightsOffer) {
  WorkedProgram worked = EveryOp();
  worked.program.ops[0].mode = ComputeMode::kA8;
  worked.program.ops[3].mode = ComputeMode::kA32;
  ProgramWeightsMap shapes = ShapesOf(worked);
  shapes["up"].shape.supports_a8 = true;
  shapes["down"].shape.integer_codes = true;
  EXPECT_EQ(CheckProgram(worked.program, shapes).status(), absl::OkStatus());
}

TEST(CheckedProgramTest, TakesEitherResultOfTopKAlone) {
  for (const ValueNumber kept : {14, 15}) {
    WorkedProgram worked = EveryOp();
    worked.program.outputs = {13, kept};
    EXPECT_EQ(CheckProgram(worked.program, ShapesOf(worked)).status(),
              absl::OkStatus());
  }
}

TEST(CheckedProgramTest, TakesAtMostTheLimits) {
  const WorkedProgram worked = EveryOp();
  ProgramLimits limits;
  limits.max_ops = 11;
  limits.max_width = 16;
  limits.max_constant_bytes = 48;
  limits.max_scratch_row_bytes = 192;
  limits.max_top_k = 3;
  const auto status = [&] {
    return CheckProgram(worked.program, ShapesOf(worked), limits)
        .status()
        .ToString();
  };
  EXPECT_EQ(status(), "OK");
  limits.max_top_k = 2;
  EXPECT_EQ(status(), "INVALID_ARGUMENT: op 10 (top_k): k = 3: must be 1 to 2");
  limits.max_width = 15;
  EXPECT_EQ(status(),
            "INVALID_ARGUMENT: op 0 (gemm): its result has width 16: must be "
            "1 to 15");
}

TEST(CheckedProgramTest, TakesTheWorkedLayersOfRealModels) {
  for (const WorkedProgram& worked :
       WorkedPrograms({4096, 4096, 1024, 128, 14336}, {})) {
    const auto checked = CheckProgram(worked.program, ShapesOf(worked));
    EXPECT_EQ(checked.status(), absl::OkStatus()) << worked.name;
  }
}

// x, then its double and so on: two values at a time, whatever the length.
TEST(CheckedProgramTest, CountsScratchFromMakerToLastReader) {
  ProgramDraft draft(NumberType::kFloat32);
  ValueNumber x = draft.Input(NumberType::kFloat32, 4);
  for (int i = 0; i < 10; ++i) x = draft.Add(x, x);
  const auto checked = CheckProgram(draft.Finish({x}), {});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->scratch_row_bytes(), 2 * 4 * 4);
}

}  // namespace
}  // namespace qgemm
