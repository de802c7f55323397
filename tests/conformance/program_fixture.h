// SPDX-License-Identifier: Apache-2.0
//
// Parts of the conformance suites of programs: a backend that runs them, random
// inputs, and programs that show all that they compute.

#ifndef QGEMM_TESTS_CONFORMANCE_PROGRAM_FIXTURE_H_
#define QGEMM_TESTS_CONFORMANCE_PROGRAM_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/programs/checked_program.h"
#include "kernels/reference/op_judge.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/conformance/program_run.h"
#include "tests/support/random_matrix.h"

namespace qgemm {

inline constexpr NumberType kFloatTypes[] = {
    NumberType::kFloat32, NumberType::kFloat16, NumberType::kBFloat16};

// A test on a fresh backend, skipped where it runs no programs.
class PerProgramBackendTest : public PerBackendTest {
 protected:
  void SetUp() override {
    PerBackendTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (backend()->programs() == nullptr) {
      GTEST_SKIP() << tested().name << " runs no programs";
    }
  }

  std::vector<uint8_t> RandomInputs(const CheckedProgram& program, int64_t m) {
    std::vector<uint8_t> inputs;
    for (const ProgramInput& input : program.program().inputs) {
      const std::vector<uint8_t> rows =
          RandomMatrix(FloatTypeOf(input.type), m, input.width, random());
      inputs.insert(inputs.end(), rows.begin(), rows.end());
    }
    return inputs;
  }

  std::shared_ptr<const CompiledProgram> Compiled(
      const CheckedProgram& program,
      const std::vector<const CanonicalWeights*>& weights = {}) {
    auto compiled = LoadAndCompile(backend(), program, weights);
    CHECK(compiled.ok()) << compiled.status();
    return *std::move(compiled);
  }
};

inline CheckedProgram CheckedOrDie(Program program,
                                   const ProgramWeightsMap& weights = {}) {
  absl::StatusOr<CheckedProgram> checked =
      CheckProgram(std::move(program), weights);
  CHECK(checked.ok()) << checked.status();
  return *std::move(checked);
}

// The same program with every result an output.
inline Program WithAllOutputs(const CheckedProgram& program) {
  Program all = program.program();
  all.outputs.clear();
  const ValueNumber values = static_cast<ValueNumber>(program.values().size());
  for (ValueNumber number = program.result_of(0); number < values; ++number) {
    all.outputs.push_back(number);
  }
  return all;
}

// Judges each op of a program whose outputs are all of its results, in order.
inline void ExpectEachOpIsRight(
    const CheckedProgram& program,
    const std::vector<const CanonicalWeights*>& weights,
    const ProgramRequest& request, const std::vector<uint8_t>& outputs) {
  reference::ProgramValues values =
      reference::ValuesBeforeOps(program, request.inputs, request.m);
  auto next = outputs.begin();
  for (const ValueNumber number : program.program().outputs) {
    const auto end = next + request.m * program.values()[number].row_bytes();
    values[number].assign(next, end);
    next = end;
  }
  const int64_t ops = static_cast<int64_t>(program.ops().size());
  for (int64_t op = 0; op < ops; ++op) {
    EXPECT_EQ(reference::JudgeOp(program, weights, values, request.m, op),
              absl::OkStatus())
        << "m = " << request.m << ", width "
        << program.values()[program.ops()[op].x].width;
  }
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_CONFORMANCE_PROGRAM_FIXTURE_H_
