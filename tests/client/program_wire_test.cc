// SPDX-License-Identifier: Apache-2.0
//
// Programs to messages and, by the server's translation, back: the worked
// layers, and random ops of every kind.

#include "client/program_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/programs/canonical_text.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/op_fields.h"
#include "server/rpc/translate.h"
#include "tests/support/program_layers.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr NumberType kTypes[] = {NumberType::kFloat32, NumberType::kFloat16,
                                 NumberType::kBFloat16, NumberType::kInt32};

TEST(ProgramWireTest, WorkedProgramsComeBackWithTheirIdentity) {
  for (const NumberType type :
       {NumberType::kFloat32, NumberType::kFloat16, NumberType::kBFloat16}) {
    for (const WorkedProgram& worked :
         WorkedPrograms({64, 32, 16, 8, 96}, {type, NumberType::kFloat32})) {
      const auto back = ToProgram(ToWire(worked.program));
      ASSERT_TRUE(back.ok()) << worked.name << ": " << back.status();
      const ProgramWeightsMap shapes = ShapesOf(worked);
      const auto checked = CheckProgram(*back, shapes);
      ASSERT_TRUE(checked.ok()) << worked.name << ": " << checked.status();
      EXPECT_EQ(CanonicalText(*checked),
                CanonicalText(*CheckProgram(worked.program, shapes)));
    }
  }
}

// All that a program says, names included; it need not be legal.
std::string Described(const Program& program) {
  std::string text = absl::StrCat("revision ", program.revision, "\n");
  for (const ProgramInput& input : program.inputs) {
    absl::StrAppend(&text, "input ", input.name, " ", Name(input.type), " ",
                    input.width, "\n");
  }
  for (const ProgramConstant& constant : program.constants) {
    const std::string bytes(constant.bytes.begin(), constant.bytes.end());
    absl::StrAppend(&text, "constant ", constant.name, " ", Name(constant.type),
                    " ", absl::BytesToHexString(bytes), "\n");
  }
  for (const ProgramOp& op : program.ops) {
    absl::StrAppend(&text, Name(op.kind), " ", op.name, " ", Name(op.type));
    for (const OpField& field : FieldsOf(op)) {
      absl::StrAppend(&text, " ", field.name, "=", field.text);
    }
    text.push_back('\n');
  }
  for (const ValueNumber output : program.outputs) {
    absl::StrAppend(&text, "output ", output, "\n");
  }
  return text;
}

// Random programs whose ops have the fields of their kinds, with any values
// that the wire can say.
class RandomProgram {
 public:
  explicit RandomProgram(RandomGenerator* random) : random_(random) {}

  Program Make() {
    Program program;
    for (int64_t i = Below(4); i > 0; --i) {
      program.inputs.push_back({Label(), Type(), Below(1 << 20)});
    }
    for (int64_t i = Below(4); i > 0; --i) {
      std::vector<uint8_t> bytes(Below(9));
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(Below(256));
      program.constants.push_back({Label(), Type(), bytes});
    }
    for (int64_t i = Below(20); i > 0; --i) program.ops.push_back(Op());
    for (int64_t i = Below(5); i > 0; --i) program.outputs.push_back(Below(99));
    return program;
  }

 private:
  int64_t Below(int64_t limit) { return RandomInt(0, limit - 1, random_); }
  std::string Label() { return std::string(Below(3), 'n'); }
  NumberType Type() { return RandomElement(kTypes, random_); }
  ValueNumber OptionalValue() { return Below(2) == 0 ? kNoValue : Below(99); }
  float Float() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kFloats[] = {0, 1e-5f, -3.5f, kInfinity, -kInfinity};
    return RandomElement(kFloats, random_);
  }

  ProgramOp Op() {
    ProgramOp op;
    op.kind = static_cast<OpKind>(Below(static_cast<int>(OpKind::kTopK) + 1));
    op.name = Label();
    op.type = Type();
    op.x = Below(99);
    SetAttributes(&op);
    return op;
  }

  void SetAttributes(ProgramOp* op) {
    switch (op->kind) {
      case OpKind::kGemm:
        op->weights = Label();
        op->mode = static_cast<ComputeMode>(Below(3));
        op->rounding =
            Below(2) == 0 ? FloatType::kFloat16 : FloatType::kBFloat16;
        return;
      case OpKind::kAdd:
      case OpKind::kMul:
        op->y = Below(99);
        return;
      case OpKind::kAct:
        op->activation = static_cast<Activation>(Below(6));
        return;
      case OpKind::kClamp:
        op->low = Float();
        op->high = Float();
        return;
      case OpKind::kLayerNorm:
        op->norm_bias = OptionalValue();
        op->norm_weight = OptionalValue();
        op->eps = Float();
        return;
      case OpKind::kRmsNorm:
        op->norm_weight = OptionalValue();
        op->eps = Float();
        op->group = Below(1 << 20);
        return;
      case OpKind::kSlice:
        op->begin = Below(1 << 20);
        op->width = Below(1 << 20);
        return;
      case OpKind::kConvert:
        return;
      case OpKind::kTopK:
        op->top_k = Below(1 << 20);
        return;
    }
  }

  RandomGenerator* const random_;
};

TEST(ProgramWireTest, RandomProgramsComeBackWhole) {
  RandomGenerator random(FreshSeed());
  for (int i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
    const Program program = RandomProgram(&random).Make();
    const auto back = ToProgram(ToWire(program));
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << Described(program);
    EXPECT_EQ(Described(*back), Described(program));
  }
}

TEST(ProgramWireTest, LeavesOutWhatIsTheDefault) {
  Program program;
  program.ops.resize(2);
  program.ops[0].kind = OpKind::kTopK;
  const v1::Program message = ToWire(program);
  EXPECT_EQ(message.ops(0).type(), v1::NUMBER_TYPE_UNSPECIFIED);
  EXPECT_EQ(message.ops(1).gemm().rounding(), v1::NUMBER_TYPE_UNSPECIFIED);
}

constexpr char kText[] = R"(
  revision: 1
  value_type: NUMBER_TYPE_BF16
  inputs { name: "x" width: 2 }
  constants { name: "scale" }
  constants { name: "shift" type: NUMBER_TYPE_FP32 }
  ops { mul { x: 0 y: 1 } }
  ops { add { x: 3 y: 2 } }
  outputs: 4
)";

TEST(ProgramTextTest, ParsesAndFillsConstantsInTheirTypes) {
  const auto message =
      ToWire(ProgramText{kText, {{"scale", {1, -2}}, {"shift", {0.5f, 0}}}});
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->inputs(0).name(), "x");
  EXPECT_EQ(message->constants(0).values(), std::string("\x80\x3f\x00\xc0", 4));
  EXPECT_EQ(message->constants(1).values(),
            std::string("\x00\x00\x00\x3f\x00\x00\x00\x00", 8));
  const auto program = ToProgram(*message);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(CheckProgram(*program, {}).ok());
}

std::string MessageOf(const ProgramText& program) {
  const absl::Status status = ToWire(program).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ProgramTextTest, SaysWhereATextDoesNotParse) {
  EXPECT_THAT(MessageOf({"revision: 1\n  opps {}", {}}),
              HasSubstr("program: line 2, column 8: "));
  EXPECT_THAT(MessageOf({"revision: 1 ops { gemm { mode: MODE_A4 } }", {}}),
              HasSubstr("MODE_A4"));
}

TEST(ProgramTextTest, RefusesConstantsThatItCannotFill) {
  EXPECT_EQ(MessageOf({kText, {{"bias", {1}}}}),
            "constant bias: the program has none of that name");
  EXPECT_EQ(MessageOf({"constants { name: 'c' } constants { name: 'c' }",
                       {{"c", {1}}}}),
            "constant c: the program has it twice");
  EXPECT_EQ(MessageOf({"constants { name: 'c' values: 'ab' }", {{"c", {1}}}}),
            "constant c: the text has values for it already");
  EXPECT_EQ(MessageOf({"constants { name: 'c' }", {{"c", {1}}}}),
            "constant c: type = 0: must be FP32 (1), FP16 (2) or BF16 (3)");
}

TEST(ProgramInfoTest, RefusesTypesThatThisClientDoesNotKnow) {
  v1::ProgramInfo info;
  info.add_outputs()->set_type(static_cast<v1::NumberType>(9));
  EXPECT_EQ(FromWire(info).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace qgemm
