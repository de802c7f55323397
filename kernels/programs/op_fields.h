// SPDX-License-Identifier: Apache-2.0
//
// The op table: which operands and attributes each kind of op has. The check
// and the canonical text read it; a new kind is a line of it.

#ifndef QGEMM_KERNELS_PROGRAMS_OP_FIELDS_H_
#define QGEMM_KERNELS_PROGRAMS_OP_FIELDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/programs/program.h"

namespace qgemm {

enum class FieldUse : uint8_t {
  kUnused,    // must stay at its default
  kOptional,  // an operand that may be absent
  kRequired,
};

// One field of an op as text.
struct OpField {
  absl::string_view name;
  // Empty for an operand or weights that are not set; "?" for an enumerator
  // that is none. Operands are value numbers; floats are the 8 hexadecimal
  // digits of their bits.
  std::string text;
  FieldUse use;
};

// Every field but the kind, the name and the type, in the order of the
// canonical text. A field that was not set has the text that it has in
// FieldsOf(ProgramOp()). `op.kind` must be an enumerator.
std::vector<OpField> FieldsOf(const ProgramOp& op);

// An operand of an op, by the name of its field.
struct OpOperand {
  absl::string_view name;
  ValueNumber value;
};

// The operands that are set: x, y, weight, bias.
std::vector<OpOperand> OperandsOf(const ProgramOp& op);

// "gemm", for ACT the activation's name, and the op's own name behind it if it
// has one: "gemm down". In messages.
std::string LabelOf(const ProgramOp& op);

// True for ops whose columns can be computed apart.
bool IsColumnwise(OpKind kind);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_PROGRAMS_OP_FIELDS_H_
