// SPDX-License-Identifier: Apache-2.0
//
// Programs and their descriptions to and from the messages of proto/qgemm/v1.

#ifndef QGEMM_CLIENT_PROGRAM_WIRE_H_
#define QGEMM_CLIENT_PROGRAM_WIRE_H_

#include "absl/status/statusor.h"
#include "kernels/programs/program.h"
#include "qgemm/program.h"
#include "qgemm/v1/program.pb.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

// The program with every type named. What a kind of op does not have is left
// out; what no program may say becomes what a server refuses.
v1::Program ToWire(const Program& program);

// The message of a text, with the constants' values filled in.
// Errors: INVALID_ARGUMENT with line and column if it does not parse, or with
// the name of a constant that it does not have, has twice, with values of its
// own, or of a type that is no float.
absl::StatusOr<v1::Program> ToWire(const ProgramText& program);

// UNIMPLEMENTED if a value has a type that this client does not know.
absl::StatusOr<ProgramInfo> FromWire(const v1::ProgramInfo& info);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_PROGRAM_WIRE_H_
