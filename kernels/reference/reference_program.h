// SPDX-License-Identifier: Apache-2.0
//
// Programs of the reference backend, without queue and thread.

#ifndef QGEMM_KERNELS_REFERENCE_REFERENCE_PROGRAM_H_
#define QGEMM_KERNELS_REFERENCE_REFERENCE_PROGRAM_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "kernels/programs/program_runner.h"

namespace qgemm::reference {

// A program over ReferenceWeights, which hold all that a run of it needs.
std::shared_ptr<const CompiledProgram> NewReferenceProgram(
    std::shared_ptr<const CheckedProgram> program, WeightsOfProgram weights);

// Interprets the program on every segment (program_interpreter.h). The batch's
// program is one that NewReferenceProgram made. Returns the time of each op if
// the batch asks for them, else nothing.
std::vector<absl::Duration> ReferenceRun(const ProgramBatch& batch);

}  // namespace qgemm::reference

#endif  // QGEMM_KERNELS_REFERENCE_REFERENCE_PROGRAM_H_
