// SPDX-License-Identifier: Apache-2.0
//
// A program's message to the model that kernels/programs checks.

#ifndef QGEMM_SERVER_RPC_TRANSLATE_PROGRAM_H_
#define QGEMM_SERVER_RPC_TRANSLATE_PROGRAM_H_

#include "absl/status/statusor.h"
#include "kernels/programs/program.h"
#include "qgemm/v1/program.pb.h"

namespace qgemm {

// The program with its defaults filled in. Whether it makes sense is left to
// CheckProgram; counts beyond int64 become the largest int64, which that
// refuses. Errors:
//   UNIMPLEMENTED     a later revision, or a field that this server does not
//                     know, at any depth: it would be dropped silently
//   INVALID_ARGUMENT  an enumerator that does not exist, an op without a kind,
//   a
//                     type that neither a value nor the program names
absl::StatusOr<Program> ToProgram(const v1::Program& message);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_TRANSLATE_PROGRAM_H_
