// SPDX-License-Identifier: Apache-2.0
//
// Edits of a program's message, each such as a client's mistake, a later
// version or an attacker makes.

#ifndef QGEMM_TESTS_SERVER_RPC_PROGRAM_MUTATIONS_H_
#define QGEMM_TESTS_SERVER_RPC_PROGRAM_MUTATIONS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "qgemm/v1/program.pb.h"
#include "tests/support/fuzz_input.h"

namespace qgemm {

// Changes one thing, as a rule; the program may be as legal as before. `words`
// are strings that names may become.
void MutateProgram(absl::Span<const std::string> words, FuzzInput* input,
                   v1::Program* program);

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_RPC_PROGRAM_MUTATIONS_H_
