// SPDX-License-Identifier: Apache-2.0
//
// Identity of a program (docs/programs.md#identity): a text that says all of
// its meaning, in which weights stand by id and no name occurs, and its hash.
// Programs are read back from it, but for their constants' values.

#ifndef QGEMM_KERNELS_PROGRAMS_CANONICAL_TEXT_H_
#define QGEMM_KERNELS_PROGRAMS_CANONICAL_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/programs/checked_program.h"

namespace qgemm {

// ASCII lines, each ended by \n:
//
//   qgemm-program-v1
//   revision=<decimal>
//   input <type> <width>                                one an input
//   constant <type> <width> <SHA-256 of its bytes>      one a constant
//   <kind> <type> <field>=<value> ...                   one an op
//   output <value number>                               one an output
//
// An op's fields are those that its kind has (op_fields.h), operands that are
// absent left out; floats are the 8 hexadecimal digits of their bits.
std::string CanonicalText(const CheckedProgram& program);

// The SHA-256 of the canonical text, 64 hexadecimal digits.
std::string ProgramId(const CheckedProgram& program);
// The same for a text that is there: that of constants takes a hash of each.
std::string ProgramIdOf(absl::string_view canonical_text);

// A constant as the text has it.
struct ConstantDigest {
  int64_t width = 0;
  std::string sha256;  // of its bytes, 64 hexadecimal digits
};

// A program as its canonical text has it.
struct ProgramReading {
  // Weights stand by id. Constants have their types and no bytes.
  Program program;
  std::vector<ConstantDigest> constants;  // of the same, in order
};

// Reads a text of any origin. Errors: INVALID_ARGUMENT with the line that does
// not parse. The rest is CheckProgram's, once the constants have their bytes;
// the program that it returns has this text.
absl::StatusOr<ProgramReading> ReadCanonicalText(absl::string_view text);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_PROGRAMS_CANONICAL_TEXT_H_
