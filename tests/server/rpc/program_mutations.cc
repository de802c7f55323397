// SPDX-License-Identifier: Apache-2.0
//
// Any field of any message of the tree by reflection, so that a new op or
// attribute is mutated as it is added; and repetitions beyond the limits.

#include "tests/server/rpc/program_mutations.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <cstdint>
#include <iterator>
#include <limits>

namespace qgemm {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kFloats[] = {
    0.0f,      -0.0f,      1e-5f,
    1.0f,      -1.0f,      3e38f,
    kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};

class Mutation {
 public:
  Mutation(absl::Span<const std::string> words, FuzzInput* input)
      : words_(words), input_(*input) {}

  void Apply(v1::Program* program) {
    switch (input_.Below(8)) {
      case 0:
        return RepeatMany(program);
      case 1:
        return UseDefaultType(program);
      case 2:
        return ChangeOutputs(program);
      default:
        return ChangeMessage(program);
    }
  }

 private:
  // Numbers near one that is there, near the limits, and at the ends of types.
  uint64_t Number(uint64_t current) {
    constexpr uint64_t kLimits[] = {
        0,    1,       2,    32,   64,      65,      96,           1024,
        1025, 1 << 16, 4096, 8192, 1 << 18, 1 << 20, (1 << 20) + 1};
    switch (input_.Below(4)) {
      case 0:
        return current + input_.Below(5) - 2;
      case 1:
        return input_.Below(80);
      case 2:
        return input_.Element(kLimits);
      default:
        return input_.Count();
    }
  }

  std::string Word() {
    switch (input_.Below(6)) {
      case 0:
        return std::string(128, 'n');
      case 1:
        return std::string(129, 'n');
      case 2:
        return "no name";
      case 3:
        return "";
      default:
        return words_[input_.Byte() % words_.size()];
    }
  }

  void ChangeOutputs(v1::Program* program) {
    auto* const outputs = program->mutable_outputs();
    const int size = outputs->size();
    const int at = size == 0 ? 0 : input_.Byte() % size;
    switch (input_.Below(4)) {
      case 0:
        return outputs->Add(static_cast<uint32_t>(Number(size)));
      case 1:
        if (size > 0) outputs->RemoveLast();
        return;
      case 2:
        if (size > 0) outputs->SwapElements(at, 0);
        return;
      default:
        if (size > 0) {
          outputs->Set(at, static_cast<uint32_t>(Number(outputs->Get(at))));
        }
    }
  }

  // A type of each value becomes that of all, and none is named.
  void UseDefaultType(v1::Program* program) {
    const auto type = static_cast<v1::NumberType>(input_.Below(6));
    program->set_value_type(type);
    for (auto& value : *program->mutable_inputs()) Clear(type, &value);
    for (auto& value : *program->mutable_constants()) Clear(type, &value);
    for (auto& value : *program->mutable_ops()) Clear(type, &value);
  }
  template <typename Typed>
  void Clear(v1::NumberType type, Typed* value) {
    if (value->type() == type && !input_.OneIn(8)) value->clear_type();
  }

  // Counts and sizes at, and beyond, what a program and a message may have.
  void RepeatMany(v1::Program* program) {
    switch (input_.Below(8)) {
      case 0:
        return FillOps(program);
      case 1:
        return FillConstants(program);
      case 2:
        for (int i = 40 * input_.Byte(); i > 0; --i) program->add_inputs();
        return;
      case 3:
        for (int i = 100 * input_.Byte(); i > 0; --i) program->add_outputs(i);
        return;
      default:
        return FillOps(program);
    }
  }

  // Values that stand before the next op.
  static uint32_t ValuesOf(const v1::Program& program) {
    uint32_t results = program.inputs_size() + program.constants_size();
    for (const v1::Program::Op& op : program.ops()) {
      results += op.has_top_k() ? 2 : 1;
    }
    return results;
  }

  // Activations behind an output, one reading the other, up to 62 to 69 ops.
  void FillOps(v1::Program* program) {
    const int size = 62 + static_cast<int>(input_.Below(8));
    if (program->ops_size() == 0 || program->outputs_size() == 0) return;
    const int output = program->outputs_size() - 1;
    uint32_t x = program->outputs(output);
    for (int i = program->ops_size(); i < size; ++i) {
      v1::Program::Op* const op = program->add_ops();
      op->set_type(v1::NUMBER_TYPE_FP32);
      op->mutable_act()->set_x(x);
      op->mutable_act()->set_kind(v1::Program::Act::KIND_TANH);
      x = ValuesOf(*program) - 1;
    }
    program->set_outputs(output, x);
  }

  // The first constant grows to about 1 MiB.
  void FillConstants(v1::Program* program) {
    if (program->constants_size() == 0) program->add_constants();
    const size_t bytes = (1 << 20) - 512 + 4 * input_.Byte();
    program->mutable_constants(0)->mutable_values()->resize(bytes);
  }

  // One field of the message, or of one in it.
  void ChangeMessage(Message* message) {
    const Reflection& reflection = *message->GetReflection();
    if (input_.OneIn(32)) return AddUnknownField(message);
    const auto& type = *message->GetDescriptor();
    const FieldDescriptor& field =
        *type.field(static_cast<int>(input_.Below(type.field_count())));
    const bool is_message =
        field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field.is_repeated()) {
      if (is_message) ChangeElement(field, message);
    } else if (!is_message) {
      ChangeScalar(field, message);
    } else if (reflection.HasField(*message, &field) || input_.OneIn(4)) {
      // Another kind of op, unless it is of that kind.
      ChangeMessage(reflection.MutableMessage(message, &field));
    } else {
      ChangeKind(message);
    }
  }

  // Into the one message that an op has.
  void ChangeKind(Message* message) {
    const Reflection& reflection = *message->GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(*message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      return ChangeMessage(reflection.MutableMessage(message, field));
    }
  }

  void ChangeElement(const FieldDescriptor& field, Message* message) {
    const Reflection& reflection = *message->GetReflection();
    const int size = reflection.FieldSize(*message, &field);
    if (size == 0) {
      reflection.AddMessage(message, &field);
      return;
    }
    const int at = input_.Byte() % size;
    switch (input_.Below(10)) {
      case 0:
        reflection.SwapElements(message, &field, at, size - 1);
        return;
      case 1:
        reflection.RemoveLast(message, &field);
        return;
      case 2:
        reflection.AddMessage(message, &field)
            ->CopyFrom(reflection.GetRepeatedMessage(*message, &field, at));
        return;
      default:
        ChangeMessage(reflection.MutableRepeatedMessage(message, &field, at));
    }
  }

  void ChangeScalar(const FieldDescriptor& field, Message* message) {
    const Reflection& reflection = *message->GetReflection();
    if (input_.OneIn(8)) return reflection.ClearField(message, &field);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection.SetUInt32(
            message, &field,
            static_cast<uint32_t>(
                Number(reflection.GetUInt32(*message, &field))));
      case FieldDescriptor::CPPTYPE_UINT64:
        return reflection.SetUInt64(
            message, &field, Number(reflection.GetUInt64(*message, &field)));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return reflection.SetFloat(message, &field, input_.Element(kFloats));
      case FieldDescriptor::CPPTYPE_ENUM:
        return reflection.SetEnumValue(
            message, &field,
            static_cast<int>(input_.OneIn(16) ? input_.Count()
                                              : input_.Below(8)));
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection.SetString(message, &field,
                                    field.type() == FieldDescriptor::TYPE_BYTES
                                        ? input_.Bytes(input_.Below(20))
                                        : Word());
      default:
        return;
    }
  }

  void AddUnknownField(Message* message) {
    auto* const unknown =
        message->GetReflection()->MutableUnknownFields(message);
    const int number = 16 + input_.Byte();
    if (input_.OneIn(2)) {
      unknown->AddVarint(number, input_.Count());
    } else {
      unknown->AddLengthDelimited(number, input_.Bytes(input_.Below(20)));
    }
  }

  const absl::Span<const std::string> words_;
  FuzzInput& input_;
};

}  // namespace

void MutateProgram(absl::Span<const std::string> words, FuzzInput* input,
                   v1::Program* program) {
  Mutation(words, input).Apply(program);
}

}  // namespace qgemm
