// SPDX-License-Identifier: Apache-2.0
//
// Writes the lines in the order of the program.

#include "kernels/programs/canonical_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "kernels/programs/op_fields.h"

namespace qgemm {
namespace {

std::string HashOf(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return ToHex(hash.Finish());
}

absl::string_view AsText(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A GEMM's weights by id, whatever the program calls them.
std::string OpLine(const CheckedProgram& program, int64_t index) {
  ProgramOp op = program.ops()[index];
  if (op.kind == OpKind::kGemm) {
    op.weights = program.weights_ids()[program.weights_of(index)];
  }
  std::string line = absl::StrCat(Name(op.kind), " ", Name(op.type));
  for (const OpField& field : FieldsOf(op)) {
    if (field.use == FieldUse::kUnused || field.text.empty()) continue;
    absl::StrAppend(&line, " ", field.name, "=", field.text);
  }
  return line;
}

}  // namespace

std::string CanonicalText(const CheckedProgram& program) {
  std::string text = absl::StrCat(
      "qgemm-program-v1\nrevision=", program.program().revision, "\n");
  for (const ProgramInput& input : program.program().inputs) {
    absl::StrAppend(&text, "input ", Name(input.type), " ", input.width, "\n");
  }
  for (const ProgramConstant& constant : program.program().constants) {
    absl::StrAppend(&text, "constant ", Name(constant.type), " ",
                    constant.width(), " ", HashOf(AsText(constant.bytes)),
                    "\n");
  }
  const int64_t ops = static_cast<int64_t>(program.ops().size());
  for (int64_t op = 0; op < ops; ++op) {
    absl::StrAppend(&text, OpLine(program, op), "\n");
  }
  for (const ValueNumber output : program.program().outputs) {
    absl::StrAppend(&text, "output ", output, "\n");
  }
  return text;
}

std::string ProgramId(const CheckedProgram& program) {
  return ProgramIdOf(CanonicalText(program));
}

std::string ProgramIdOf(absl::string_view canonical_text) {
  return HashOf(canonical_text);
}

}  // namespace qgemm
