// SPDX-License-Identifier: Apache-2.0
//
// Programs as a caller sees them: their registration and description, and one
// run with its result. Program and ProgramBuilder come with it.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_PROGRAM_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/programs/program.h"
#include "kernels/programs/program_builder.h"
#include "qgemm/gemm.h"

namespace qgemm {

struct RegisterOptions {
  // [A-Za-z0-9._/-]{1,128}; bound to the program. Empty: reachable by id alone.
  std::string name;
  // Conditions on the name, of which one may be set. A name that is bound to
  // this program already satisfies both.
  bool create_only = false;  // bound to nothing, else ALREADY_EXISTS
  // Bound to the program of this id, else FAILED_PRECONDITION. Empty: none.
  std::string if_match;
  absl::Time deadline = absl::InfiniteFuture();
  // Checks the program here before it is sent, against the shapes of its
  // weights, each of which is a GetWeights. The server checks in any case;
  // false is for one of a later version, which may take more.
  bool check = true;
};

// A program as a person writes it.
struct ProgramText {
  // A qgemm.v1.Program in Protobuf's text format.
  std::string text;
  // Values of constants by their names, rounded to the constant's type. Those
  // must have no `values` in the text.
  std::map<std::string, std::vector<float>> constants;
};

// An input or an output: [m, width].
struct ProgramPort {
  std::string name;  // of the input, or of the op; may be empty
  NumberType type = NumberType::kFloat32;
  int64_t width = 0;

  int64_t row_bytes() const { return width * SizeOf(type); }
};

// One program that the server holds.
struct ProgramInfo {
  std::string id;                  // 64 hexadecimal digits
  std::vector<std::string> names;  // sorted; the server sends the first 100
  int64_t name_count = 0;          // of all
  std::vector<ProgramPort> inputs;
  std::vector<ProgramPort> outputs;
  int64_t input_row_bytes = 0;  // of one row of all inputs, or of all outputs
  int64_t output_row_bytes = 0;
  int64_t ops = 0;
  std::vector<std::string> weights;  // ids, each once
  int64_t resident_bytes = 0;        // held for it beside its weights
  // The canonical text that the id is hashed from; empty in lists.
  std::string text;
};

struct RegisterResult {
  ProgramInfo program;
  bool deduplicated = false;  // the server had this program already
};

// The bytes of elements, which stay where they are: for RunRequest.
template <typename T>
absl::Span<const uint8_t> AsBytes(const std::vector<T>& elements) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(elements.data()),
                             elements.size() * sizeof(T));
}
template <typename T>
absl::Span<uint8_t> AsWritableBytes(absl::Span<T> elements) {
  return absl::MakeSpan(reinterpret_cast<uint8_t*>(elements.data()),
                        elements.size() * sizeof(T));
}

// One run on m rows. Spans are borrowed; the fields say for how long.
struct RunRequest {
  std::string program;  // a name or an id
  int64_t m = 0;        // rows of each input, 1 or more
  // The program's inputs in order, [m, width] elements each, row-major without
  // gaps, little-endian, any alignment. They travel one behind the other, so
  // that a span may also hold several. Copied before the call that takes the
  // request returns, unless inputs_released is set.
  std::vector<absl::Span<const uint8_t>> inputs;
  // If set, the inputs are sent from where they are and must not change until
  // this runs: once a call, on any thread, however the call ends, possibly
  // after its end. It must not block, nor call or destroy the client.
  std::function<void()> inputs_released;
  // Memory for the outputs in order, which together have exactly their bytes:
  // the answer is written there, and must be left alone until the call has
  // ended. Empty: the answer comes in RunResult::outputs.
  std::vector<absl::Span<uint8_t>> outputs;
  // The server drops the request if it has not started by then; the call ends
  // with DEADLINE_EXCEEDED.
  absl::Time deadline = absl::InfiniteFuture();
  // As GemmRequest has it.
  std::string client_id;
  RequestPriority priority = RequestPriority::kNormal;
  // Asks for Timings::ops. The run then shares launches only with others that
  // ask, and may take longer; the outputs are the same.
  bool time_ops = false;
};

struct RunResult {
  // The outputs one behind the other, [m, width] elements each. Empty if the
  // request gave memory for them.
  std::string outputs;
  int64_t m = 0;
  int64_t row_bytes = 0;  // of all outputs together
  Timings timings;
  int attempts = 1;  // 2 or more after a retry

  // The bytes of output `index` in `outputs`, by the description of the program
  // that ran. Errors: INVALID_ARGUMENT if the description has no such output,
  // or is of a program whose rows are of another size.
  absl::StatusOr<absl::Span<const uint8_t>> Output(const ProgramInfo& program,
                                                   int64_t index) const;
};

// As GemmCallback.
using RunCallback = absl::AnyInvocable<void(absl::StatusOr<RunResult>)>;

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_PROGRAM_H_
