// SPDX-License-Identifier: Apache-2.0
//
// Values are numbered as they are made; the numbers of the program, where all
// constants stand before the first result, are filled in at the end.

#include "tests/support/random_program.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace qgemm {
namespace {

constexpr NumberType kTypes[] = {NumberType::kFloat32, NumberType::kFloat16,
                                 NumberType::kBFloat16};
constexpr int64_t kMaxInputs = 4;
// Room for the ops that read what nothing else has read.
constexpr int64_t kMaxDrawnOps = 64 - 2 * kMaxInputs;
// A wider constant would be a good part of what a program may have.
constexpr int64_t kMaxConstantWidth = 4096;
constexpr int kKinds = 10;

struct Value {
  enum class Origin { kInput, kConstant, kResult };

  Origin origin = Origin::kInput;
  NumberType type = NumberType::kFloat32;
  int64_t width = 0;
  bool is_read = false;
  // The other result of the same TOP_K; kNoValue: there is none.
  ValueNumber twin = kNoValue;
};

class Draft {
 public:
  Draft(const ProgramRecipe& recipe, FuzzInput* input)
      : recipe_(recipe), input_(*input) {}

  Program Draw() {
    const int64_t inputs = 1 + input_.Below(kMaxInputs);
    for (int64_t i = 0; i < inputs; ++i) AddInput();
    const int64_t most = std::min(recipe_.max_ops, kMaxDrawnOps);
    const int64_t ops = 1 + input_.Below(static_cast<uint32_t>(most));
    for (int64_t i = 0; i < ops; ++i) AddOp();
    ReadInputs();
    AddOutputs();
    NumberOperands();
    return std::move(program_);
  }

 private:
  NumberType Type() { return input_.Element(kTypes); }

  ValueNumber Append(Value::Origin origin, NumberType type, int64_t width) {
    Value value;
    value.origin = origin;
    value.type = type;
    value.width = width;
    values_.push_back(value);
    return static_cast<ValueNumber>(values_.size()) - 1;
  }

  ValueNumber Read(ValueNumber number) {
    values_[number].is_read = true;
    return number;
  }

  void AddInput() {
    ProgramInput input;
    input.type = Type();
    input.width = input_.Element(recipe_.widths);
    operands_.push_back(Append(Value::Origin::kInput, input.type, input.width));
    program_.inputs.push_back(std::move(input));
  }

  // Values from -2 to 2, or zeros when the input is used up.
  ValueNumber AddConstant(int64_t width) {
    ProgramConstant constant;
    constant.type = Type();
    constant.bytes.resize(width * SizeOf(constant.type));
    const uint8_t seed = input_.Byte();
    for (int64_t i = 0; i < width; ++i) {
      const int64_t step = (seed * (i + 1)) % 129;
      StoreFloat(FloatTypeOf(constant.type), static_cast<float>(step - 64) / 32,
                 &constant.bytes[i * SizeOf(constant.type)]);
    }
    const ValueNumber number =
        Append(Value::Origin::kConstant, constant.type, width);
    program_.constants.push_back(std::move(constant));
    return Read(number);
  }

  // A recent value, or any.
  ValueNumber Operand() {
    const auto count = static_cast<uint32_t>(operands_.size());
    const uint32_t back = input_.Below(input_.OneIn(2) ? 2 : 64);
    return Read(operands_[count - 1 - back % count]);
  }

  // Legal for ADD and MUL with an x of that width.
  ValueNumber SecondOperand(int64_t width) {
    std::vector<ValueNumber> fitting;
    for (const ValueNumber number : operands_) {
      const int64_t other = values_[number].width;
      if (other == width || other == 1) fitting.push_back(number);
    }
    const bool constant = width <= kMaxConstantWidth && input_.OneIn(3);
    if (constant) return AddConstant(input_.OneIn(4) ? 1 : width);
    // x itself is one.
    return Read(fitting[input_.Byte() % fitting.size()]);
  }

  ValueNumber NormConstant(int64_t width) {
    const bool absent = width > kMaxConstantWidth || input_.OneIn(3);
    return absent ? kNoValue : AddConstant(width);
  }

  void AddOp() {
    ProgramOp op;
    op.x = Operand();
    op.type = Type();
    op.kind = static_cast<OpKind>(input_.Below(kKinds));
    // No weights may have that k.
    if (op.kind == OpKind::kGemm && !SetGemm(&op)) op.kind = OpKind::kAct;
    AddResults(&op, SetOperands(&op));
    program_.ops.push_back(std::move(op));
  }

  // Sets all that the kind has but a GEMM's; the width of the result.
  int64_t SetOperands(ProgramOp* op) {
    const int64_t width = values_[op->x].width;
    switch (op->kind) {
      case OpKind::kGemm:
        return recipe_.weights->at(op->weights).shape.n;
      case OpKind::kAdd:
      case OpKind::kMul:
        op->y = SecondOperand(width);
        return width;
      case OpKind::kAct:
        op->activation = static_cast<Activation>(input_.Below(6));
        return width;
      case OpKind::kClamp:
        op->low = static_cast<float>(input_.Byte()) / 64 - 4;
        op->high = op->low + static_cast<float>(input_.Byte()) / 64;
        return width;
      case OpKind::kRmsNorm:
        SetRmsNorm(width, op);
        return width;
      case OpKind::kLayerNorm:
        op->eps = 1e-5f;
        op->norm_weight = NormConstant(width);
        op->norm_bias = NormConstant(width);
        return width;
      case OpKind::kSlice:
        op->begin = input_.Byte() % width;
        op->width = 1 + input_.Byte() % (width - op->begin);
        if (input_.OneIn(4)) op->width = width - op->begin;
        return op->width;
      case OpKind::kConvert:
        return width;
      case OpKind::kTopK:
        op->type = NumberType::kFloat32;
        op->top_k = 1 + input_.Byte() % std::min<int64_t>(width, 1024);
        return op->top_k;
    }
    LOG(FATAL) << Name(op->kind);
    return 0;
  }

  void SetRmsNorm(int64_t width, ProgramOp* op) {
    op->eps = input_.OneIn(8) ? 0 : 1e-6f;
    const int64_t group = 1 + input_.Below(64);
    if (width % group == 0) op->group = group;
    const bool one_run = op->group != 0 && input_.OneIn(2);
    op->norm_weight = NormConstant(one_run ? op->group : width);
  }

  // False if no weights have the width of x.
  bool SetGemm(ProgramOp* op) {
    const Value& x = values_[op->x];
    std::vector<const ProgramWeightsMap::value_type*> fitting;
    for (const auto& weights : *recipe_.weights) {
      if (weights.second.shape.k == x.width) fitting.push_back(&weights);
    }
    if (fitting.empty()) return false;
    const auto& [name, weights] = *fitting[input_.Byte() % fitting.size()];
    op->weights = name;
    if (weights.shape.supports_a8 && input_.OneIn(2)) {
      op->mode = ComputeMode::kA8;
    } else if (weights.shape.integer_codes && input_.OneIn(2)) {
      op->mode = ComputeMode::kA32;
    } else if (x.type == NumberType::kFloat32 && input_.OneIn(2)) {
      op->rounding = FloatType::kFloat16;
    }
    return true;
  }

  void AddResults(ProgramOp* op, int64_t width) {
    const ValueNumber result = Append(Value::Origin::kResult, op->type, width);
    operands_.push_back(result);
    if (op->kind != OpKind::kTopK) return;
    const ValueNumber ids =
        Append(Value::Origin::kResult, NumberType::kInt32, width);
    values_[result].twin = ids;
    values_[ids].twin = result;
  }

  void ReadInputs() {
    const auto inputs = static_cast<ValueNumber>(program_.inputs.size());
    for (ValueNumber number = 0; number < inputs; ++number) {
      if (values_[number].is_read) continue;
      ProgramOp op;
      op.kind = OpKind::kConvert;
      op.type = Type();
      op.x = Read(number);
      AddResults(&op, values_[number].width);
      program_.ops.push_back(std::move(op));
    }
  }

  // Every result that nothing reads, and some that an op reads.
  void AddOutputs() {
    const auto count = static_cast<ValueNumber>(values_.size());
    for (ValueNumber number = 0; number < count; ++number) {
      Value& value = values_[number];
      if (value.origin != Value::Origin::kResult) continue;
      const bool twin_is_read =
          value.twin != kNoValue && values_[value.twin].is_read;
      if ((value.is_read || twin_is_read) && !input_.OneIn(4)) continue;
      value.is_read = true;
      program_.outputs.push_back(number);
    }
    if (input_.OneIn(4)) {
      std::reverse(program_.outputs.begin(), program_.outputs.end());
    }
  }

  // The numbers that values have in the program.
  std::vector<ValueNumber> Numbers() const {
    std::vector<ValueNumber> numbers(values_.size());
    ValueNumber next = 0;
    for (const auto origin : {Value::Origin::kInput, Value::Origin::kConstant,
                              Value::Origin::kResult}) {
      for (size_t i = 0; i < values_.size(); ++i) {
        if (values_[i].origin == origin) numbers[i] = next++;
      }
    }
    return numbers;
  }

  void NumberOperands() {
    const std::vector<ValueNumber> numbers = Numbers();
    const auto number = [&numbers](ValueNumber* value) {
      if (*value != kNoValue) *value = numbers[*value];
    };
    for (ProgramOp& op : program_.ops) {
      number(&op.x);
      number(&op.y);
      number(&op.norm_weight);
      number(&op.norm_bias);
    }
    for (ValueNumber& output : program_.outputs) number(&output);
  }

  const ProgramRecipe& recipe_;
  FuzzInput& input_;
  Program program_;
  std::vector<Value> values_;
  std::vector<ValueNumber> operands_;  // inputs and results that are floats
};

}  // namespace

Program RandomProgram(const ProgramRecipe& recipe, FuzzInput* input) {
  CHECK(!recipe.widths.empty());
  return Draft(recipe, input).Draw();
}

}  // namespace qgemm
