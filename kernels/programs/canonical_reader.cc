// SPDX-License-Identifier: Apache-2.0
//
// Reads canonical texts line by line; names are found among those that Name
// gives.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/float16.h"
#include "kernels/programs/canonical_text.h"

namespace qgemm {
namespace {

using Words = std::vector<absl::string_view>;

// True if `text` is the name of one of `all`, which it then is.
template <typename Enum>
bool ReadEnum(absl::string_view text, std::initializer_list<Enum> all,
              Enum* value) {
  for (const Enum each : all) {
    if (Name(each) != text) continue;
    *value = each;
    return true;
  }
  return false;
}

bool ReadType(absl::string_view text, NumberType* type) {
  return ReadEnum(
      text, {NumberType::kFloat32, NumberType::kFloat16, NumberType::kBFloat16},
      type);
}

bool ReadKind(absl::string_view text, OpKind* kind) {
  return ReadEnum(text,
                  {OpKind::kGemm, OpKind::kAdd, OpKind::kMul, OpKind::kAct,
                   OpKind::kClamp, OpKind::kRmsNorm, OpKind::kLayerNorm,
                   OpKind::kSlice, OpKind::kConvert, OpKind::kTopK},
                  kind);
}

bool ReadNumber(absl::string_view text, int64_t* number) {
  return absl::SimpleAtoi(text, number) && *number >= 0;
}

// The 8 hexadecimal digits of a float's bits.
bool ReadBits(absl::string_view text, float* value) {
  uint32_t bits = 0;
  if (text.size() != 8 || !absl::SimpleHexAtoi(text, &bits)) return false;
  *value = FloatFromBits(bits);
  return true;
}

bool ReadEnumField(absl::string_view name, absl::string_view text,
                   ProgramOp* op) {
  if (name == "mode") {
    return ReadEnum(text,
                    {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32},
                    &op->mode);
  }
  if (name == "rounding") {
    return ReadEnum(text, {FloatType::kFloat16, FloatType::kBFloat16},
                    &op->rounding);
  }
  return name == "activation" &&
         ReadEnum(
             text,
             {Activation::kSilu, Activation::kSigmoid, Activation::kGeluErf,
              Activation::kGeluTanh, Activation::kRelu, Activation::kTanh},
             &op->activation);
}

bool ReadField(absl::string_view name, absl::string_view text, ProgramOp* op) {
  const std::pair<absl::string_view, int64_t*> numbers[] = {
      {"x", &op->x},
      {"y", &op->y},
      {"weight", &op->norm_weight},
      {"bias", &op->norm_bias},
      {"group", &op->group},
      {"begin", &op->begin},
      {"width", &op->width},
      {"k", &op->top_k}};
  for (const auto& [number_name, number] : numbers) {
    if (name == number_name) return ReadNumber(text, number);
  }
  const std::pair<absl::string_view, float*> floats[] = {
      {"low", &op->low}, {"high", &op->high}, {"eps", &op->eps}};
  for (const auto& [float_name, value] : floats) {
    if (name == float_name) return ReadBits(text, value);
  }
  if (name != "weights") return ReadEnumField(name, text, op);
  op->weights = std::string(text);
  return true;
}

// "<kind> <type> <field>=<value> ..."
bool ReadOp(const Words& words, ProgramOp* op) {
  if (words.size() < 2 || !ReadKind(words[0], &op->kind) ||
      !ReadType(words[1], &op->type)) {
    return false;
  }
  for (size_t i = 2; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == absl::string_view::npos ||
        !ReadField(words[i].substr(0, equals), words[i].substr(equals + 1),
                   op)) {
      return false;
    }
  }
  return true;
}

bool ReadInput(const Words& words, ProgramReading* reading) {
  ProgramInput input;
  if (words.size() != 3 || !ReadType(words[1], &input.type) ||
      !ReadNumber(words[2], &input.width)) {
    return false;
  }
  reading->program.inputs.push_back(std::move(input));
  return true;
}

bool ReadConstant(const Words& words, ProgramReading* reading) {
  ProgramConstant constant;
  ConstantDigest digest;
  if (words.size() != 4 || !ReadType(words[1], &constant.type) ||
      !ReadNumber(words[2], &digest.width)) {
    return false;
  }
  digest.sha256 = std::string(words[3]);
  reading->program.constants.push_back(std::move(constant));
  reading->constants.push_back(std::move(digest));
  return true;
}

bool ReadLine(absl::string_view line, ProgramReading* reading) {
  const Words words = absl::StrSplit(line, ' ');
  if (words[0] == "input") return ReadInput(words, reading);
  if (words[0] == "constant") return ReadConstant(words, reading);
  if (words[0] == "output") {
    ValueNumber number = kNoValue;
    if (words.size() != 2 || !ReadNumber(words[1], &number)) return false;
    reading->program.outputs.push_back(number);
    return true;
  }
  if (absl::ConsumePrefix(&line, "revision=")) {
    return ReadNumber(line, &reading->program.revision);
  }
  ProgramOp op;
  if (!ReadOp(words, &op)) return false;
  reading->program.ops.push_back(std::move(op));
  return true;
}

}  // namespace

absl::StatusOr<ProgramReading> ReadCanonicalText(absl::string_view text) {
  ProgramReading reading;
  if (!absl::ConsumePrefix(&text, "qgemm-program-v1\n")) {
    return absl::InvalidArgumentError(
        "the text of the program does not begin with qgemm-program-v1");
  }
  absl::ConsumeSuffix(&text, "\n");
  int64_t number = 2;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!ReadLine(line, &reading)) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " of the program's text, \"", line,
                       "\", is none that this version knows"));
    }
    ++number;
  }
  return reading;
}

}  // namespace qgemm
