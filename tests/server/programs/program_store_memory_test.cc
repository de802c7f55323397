// SPDX-License-Identifier: Apache-2.0
//
// Memory that the largest records of programs take, against what the budget
// counts for them.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/programs/canonical_text.h"
#include "server/programs/program_store.h"
#include "tests/server/programs/counted_program.h"
#include "tests/server/weights/counted_weights.h"

namespace qgemm {
namespace {

constexpr int64_t kCount = 100;
constexpr int64_t kOps = 64;
constexpr int64_t kWidth = 4;

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

std::string LongestName(int64_t number) {
  return absl::StrFormat("%0128d", number);
}

// Products, each with a layer of its own, and the longest names.
Program Products() {
  ProgramDraft draft(NumberType::kFloat32);
  ValueNumber x = draft.Input(NumberType::kFloat32, kWidth);
  for (int64_t i = 0; i < kOps; ++i) {
    x = draft.Gemm(x, LongestName(i));
    draft.last().name = LongestName(i);
  }
  return draft.Finish({x});
}

// Norms, each with an input and two constants of its own, which are outputs.
Program Norms() {
  ProgramDraft draft(NumberType::kFloat32);
  const std::vector<float> values(kWidth, 1);
  std::vector<ValueNumber> inputs, constants, outputs;
  for (int64_t i = 0; i < kOps; ++i) {
    inputs.push_back(draft.Input(NumberType::kFloat32, kWidth));
  }
  for (int64_t i = 0; i < 2 * kOps; ++i) {
    constants.push_back(draft.Constant(NumberType::kFloat32, values));
  }
  for (int64_t i = 0; i < kOps; ++i) {
    outputs.push_back(
        draft.LayerNorm(inputs[i], constants[2 * i], constants[2 * i + 1]));
    draft.last().name = LongestName(i);
  }
  Program program = draft.Finish(outputs);
  for (ProgramInput& input : program.inputs) input.name = LongestName(1);
  for (ProgramConstant& c : program.constants) c.name = LongestName(1);
  return program;
}

// One constant of the largest size, and one op.
Program LargeConstant() {
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 1 << 18);
  const ValueNumber y =
      draft.Constant(NumberType::kFloat32, std::vector<float>(1 << 18, 1));
  return draft.Finish({draft.Add(x, y)});
}

class ProgramStoreMemoryTest : public testing::TestWithParam<Program (*)()> {
 protected:
  ProgramStoreMemoryTest() {
    for (int64_t i = 0; i < kOps; ++i) {
      ProgramWeights& weights = shapes_[LongestName(i)];
      weights.id = absl::StrFormat("%064x", i);
      weights.shape.dense = true;
      weights.shape.n = weights.shape.k = kWidth;
      layers_.push_back(std::make_shared<CountedWeights>(kWidth, 0, &live_));
    }
  }

  void Commit(int64_t number) {
    const auto checked = Checked(GetParam()(), shapes_);
    ResidentProgram program;
    program.id = absl::StrFormat("%064x", number);
    program.text = CanonicalText(*checked);
    auto reservation =
        weights_.Reserve(kAnybody, ProgramRecordBytes(*checked, program.text));
    ASSERT_TRUE(reservation.ok());
    program.compiled = std::make_shared<CountedProgram>(
        checked,
        WeightsOfProgram(layers_.begin(),
                         layers_.begin() + checked->weights_ids().size()),
        0, &live_);
    ASSERT_TRUE(programs_
                    .Commit(kAnybody, std::move(program),
                            *std::move(reservation),
                            {LongestName(number), false, ""})
                    .ok());
  }

  std::atomic<int64_t> live_{0};
  ProgramWeightsMap shapes_;
  WeightsOfProgram layers_;
  WeightStore weights_{StoreLimits{}};
  ProgramStore programs_{ProgramStoreLimits{}, &weights_};
};

TEST_P(ProgramStoreMemoryTest, BudgetCoversTheRecordsOfPrograms) {
  const int64_t heap_before = HeapBytes();
  for (int64_t i = 0; i < kCount; ++i) Commit(i);
  const int64_t taken = HeapBytes() - heap_before;
  std::cout << taken / kCount << " bytes a program with its name, of "
            << weights_.reserved_bytes() / kCount << " reserved\n";
  EXPECT_LE(taken, weights_.reserved_bytes());
}

INSTANTIATE_TEST_SUITE_P(Programs, ProgramStoreMemoryTest,
                         testing::Values(&Products, &Norms, &LargeConstant));

}  // namespace
}  // namespace qgemm
