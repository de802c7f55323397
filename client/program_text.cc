// SPDX-License-Identifier: Apache-2.0
//
// A program's text as its message. Protobuf parses it; constants are filled in
// by name.

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "client/program_wire.h"

namespace qgemm {
namespace {

template <typename... Parts>
absl::Status Refused(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// The first error of a text, with its place.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  const std::string& text() const { return text_; }

  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    // Both count from 0; line -1 stands for the text as a whole.
    text_ = line < 0 ? message
                     : absl::StrCat("line ", line + 1, ", column ", column + 1,
                                    ": ", message);
  }

 private:
  std::string text_;
};

absl::StatusOr<v1::Program::Constant*> FindConstant(absl::string_view name,
                                                    v1::Program* message) {
  v1::Program::Constant* found = nullptr;
  for (v1::Program::Constant& constant : *message->mutable_constants()) {
    if (constant.name() != name) continue;
    if (found != nullptr) {
      return Refused("constant ", name, ": the program has it twice");
    }
    found = &constant;
  }
  if (found == nullptr) {
    return Refused("constant ", name, ": the program has none of that name");
  }
  if (!found->values().empty()) {
    return Refused("constant ", name, ": the text has values for it already");
  }
  return found;
}

absl::StatusOr<FloatType> FloatTypeOf(v1::NumberType type) {
  switch (type) {
    case v1::NUMBER_TYPE_FP32:
      return FloatType::kFloat32;
    case v1::NUMBER_TYPE_FP16:
      return FloatType::kFloat16;
    case v1::NUMBER_TYPE_BF16:
      return FloatType::kBFloat16;
    default:
      return Refused("type = ", static_cast<int>(type),
                     ": must be FP32 (1), FP16 (2) or BF16 (3)");
  }
}

absl::Status FillConstant(const std::string& name,
                          const std::vector<float>& values,
                          v1::Program* message) {
  ASSIGN_OR_RETURN(v1::Program::Constant* const constant,
                   FindConstant(name, message));
  const absl::StatusOr<FloatType> type = FloatTypeOf(
      constant->type() == v1::NUMBER_TYPE_UNSPECIFIED ? message->value_type()
                                                      : constant->type());
  if (!type.ok())
    return Refused("constant ", name, ": ", type.status().message());
  std::string bytes(values.size() * SizeOf(*type), '\0');
  auto* to = reinterpret_cast<uint8_t*>(bytes.data());
  for (const float value : values) {
    StoreFloat(*type, value, to);
    to += SizeOf(*type);
  }
  constant->set_values(std::move(bytes));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Program> ToWire(const ProgramText& program) {
  v1::Program message;
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(program.text, &message)) {
    return Refused("program: ", error.text());
  }
  for (const auto& [name, values] : program.constants) {
    RETURN_IF_ERROR(FillConstant(name, values, &message));
  }
  return message;
}

}  // namespace qgemm
