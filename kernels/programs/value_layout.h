// SPDX-License-Identifier: Apache-2.0
//
// The place of each value of a program in an executor's memory.

#ifndef QGEMM_KERNELS_PROGRAMS_VALUE_LAYOUT_H_
#define QGEMM_KERNELS_PROGRAMS_VALUE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/programs/checked_program.h"

namespace qgemm {

// The memory that holds a value, and where in it the value starts.
struct ValuePlace {
  enum class Memory : uint8_t {
    kInputs,    // of the request
    kOutputs,   // of the request
    kScratch,   // of the row
    kConstant,  // one row for all
  };

  Memory memory = Memory::kInputs;
  // kInputs and kOutputs: bytes of a row of all values before it. kScratch:
  // bytes from the start of the row's scratch. kConstant: the constant's place
  // among the program's.
  int64_t offset = 0;
};

// Places by value number.
struct ValueLayout {
  std::vector<ValuePlace> places;
  // Scratch of a row: room for all that is alive at once, values aligned to 64
  // bytes.
  int64_t scratch_bytes = 0;
};

// Gives results that are no outputs memory by their lifetimes: two share some
// only if no turn reads or makes both. `turns` has the turn of each op, in
// ascending order: whoever computes some ops together gives them one. Pure.
ValueLayout LayOutValues(const CheckedProgram& program,
                         absl::Span<const int64_t> turns);
// With a turn for each op.
ValueLayout LayOutValues(const CheckedProgram& program);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_PROGRAMS_VALUE_LAYOUT_H_
