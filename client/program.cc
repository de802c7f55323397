// SPDX-License-Identifier: Apache-2.0
//
// The values of qgemm/program.h; no gRPC.

#include "qgemm/program.h"

#include "absl/strings/str_cat.h"

namespace qgemm {

absl::StatusOr<absl::Span<const uint8_t>> RunResult::Output(
    const ProgramInfo& program, int64_t index) const {
  const auto count = static_cast<int64_t>(program.outputs.size());
  if (index < 0 || index >= count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "output ", index, ": the program has ", count, " outputs"));
  }
  const auto bytes = static_cast<int64_t>(outputs.size());
  int64_t left = m > 0 ? bytes / m : 0;  // of a row, behind the outputs so far
  int64_t begin = 0;                     // of the output in a row
  for (int64_t i = 0; i < count; ++i) {
    const ProgramPort& port = program.outputs[i];
    // Widths are a server's word: checked before they are multiplied.
    if (port.width < 1 || port.width > left / SizeOf(port.type)) {
      left = -1;
      break;
    }
    if (i < index) begin += port.row_bytes();
    left -= port.row_bytes();
  }
  if (left != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the outputs have ", bytes, " bytes for ", m,
                     " rows, which are not those of program ", program.id));
  }
  return absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(outputs.data()) + m * begin,
      m * program.outputs[index].row_bytes());
}

}  // namespace qgemm
