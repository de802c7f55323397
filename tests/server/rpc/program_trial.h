// SPDX-License-Identifier: Apache-2.0
//
// A run of a program that a server has taken, on random inputs: by the
// reference, and op by op on a backend. What is wrong ends the process.

#ifndef QGEMM_TESTS_SERVER_RPC_PROGRAM_TRIAL_H_
#define QGEMM_TESTS_SERVER_RPC_PROGRAM_TRIAL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matrix/backend.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/programs/program_runner.h"
#include "kernels/reference/op_judge.h"

namespace qgemm {

using CanonicalWeightsById = std::map<std::string, CanonicalWeights>;

class ProgramTrial {
 public:
  // All must outlive the trial; `weights` has those of the program. m is 1 or
  // more. The same program and m give the same inputs.
  ProgramTrial(Backend* backend, const CanonicalWeightsById* weights,
               std::shared_ptr<const CompiledProgram> program, int64_t m);

  // The reference computes it: every value has its size.
  void Interpret() const;
  // The backend computes it: each op is right for the operands that it had, and
  // the outputs are the bits of the ops one by one.
  void Execute() const;

 private:
  const CheckedProgram& program() const { return compiled_->program(); }
  std::vector<const CanonicalWeights*> Weights() const;
  std::shared_ptr<const CompiledProgram> WithAllOutputs() const;
  reference::ProgramValues ValuesOf(const CheckedProgram& all,
                                    const std::vector<uint8_t>& outputs) const;
  std::vector<uint8_t> OutputsOf(
      std::shared_ptr<const CompiledProgram> program) const;

  Backend* const backend_;
  const CanonicalWeightsById& weights_;
  const std::shared_ptr<const CompiledProgram> compiled_;
  const int64_t m_;
  std::vector<uint8_t> inputs_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_RPC_PROGRAM_TRIAL_H_
