// SPDX-License-Identifier: Apache-2.0
//
// Values of a program in scratch never stand on each other while both are
// alive; and neither the cut into tiles nor threads change a bit.

#include "kernels/cpu/program_executor.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/byte_budget.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "tests/support/panel_writer.h"
#include "tests/support/program_layers.h"
#include "tests/support/random_matrix.h"

namespace qgemm::cpu {
namespace {

// The FFN's columns are shared by threads where rows are few.
constexpr LayerShape kShape = {32, 64, 32, 32, 2112};

CheckedProgram Checked(Program program, const ProgramWeightsMap& weights = {}) {
  absl::StatusOr<CheckedProgram> checked =
      CheckProgram(std::move(program), weights);
  CHECK(checked.ok()) << checked.status();
  return *std::move(checked);
}

bool IsScratch(const ValueLayout& layout, size_t number) {
  return layout.places[number].memory == ValuePlace::Memory::kScratch;
}

bool AreAliveTogether(const ProgramValue& a, const ProgramValue& b) {
  return a.made_by <= std::max(b.made_by, b.last_read) &&
         b.made_by <= std::max(a.made_by, a.last_read);
}

void ExpectApartWhileAlive(const CheckedProgram& program,
                           const ValueLayout& layout) {
  const std::vector<ProgramValue>& values = program.values();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!IsScratch(layout, i)) continue;
    const int64_t begin = layout.places[i].offset;
    const int64_t end = begin + values[i].row_bytes();
    EXPECT_EQ(begin % 64, 0);
    EXPECT_LE(end, layout.scratch_bytes);
    for (size_t j = 0; j < i; ++j) {
      if (!IsScratch(layout, j)) continue;
      if (!AreAliveTogether(values[i], values[j])) continue;
      const int64_t other = layout.places[j].offset;
      EXPECT_TRUE(end <= other || other + values[j].row_bytes() <= begin)
          << "values " << i << " and " << j;
    }
  }
}

TEST(ValueLayoutTest, ValuesThatLiveTogetherStandApart) {
  for (const WorkedProgram& worked : WorkedPrograms(kShape, {})) {
    SCOPED_TRACE(worked.name);
    const CheckedProgram program = Checked(worked.program, ShapesOf(worked));
    ExpectApartWhileAlive(program, LayOutValues(program));
  }
}

TEST(ValueLayoutTest, RandomLifetimesStandApart) {
  RandomGenerator random(FreshSeed());
  for (int trial = 0; trial < 50; ++trial) {
    ProgramDraft draft(NumberType::kFloat32);
    std::vector<ValueNumber> values = {draft.Input(NumberType::kFloat32, 200)};
    // Slices of any earlier value; whatever nothing reads is an output.
    std::vector<int64_t> widths = {200};
    for (int op = 0; op < 40; ++op) {
      const int64_t from = RandomInt(0, values.size() - 1, &random);
      const int64_t width = RandomInt(1, widths[from], &random);
      values.push_back(draft.Slice(values[from], 0, width));
      widths.push_back(width);
    }
    const Program program = draft.Finish({});
    std::vector<bool> read(values.size());
    for (const ProgramOp& op : program.ops) read[op.x] = true;
    Program complete = program;
    for (const ValueNumber value : values) {
      if (!read[value]) complete.outputs.push_back(value);
    }
    const CheckedProgram checked = Checked(std::move(complete));
    ExpectApartWhileAlive(checked, LayOutValues(checked));
  }
}

TEST(ValueLayoutTest, AChainTakesTheScratchOfTwoValues) {
  ProgramDraft draft(NumberType::kFloat32);
  ValueNumber x = draft.Input(NumberType::kFloat32, 100);
  for (int op = 0; op < 20; ++op) x = draft.Act(x, Activation::kTanh);
  const CheckedProgram program = Checked(draft.Finish({x}));
  EXPECT_EQ(LayOutValues(program).scratch_bytes, 2 * RoundUp(400, 64));
}

TEST(CpuProgramTest, RefusesAKOfTopKBeyondItsOwn) {
  ProgramLimits limits;
  limits.max_top_k = 2 * kMaxTopK;
  for (const int64_t k : {kMaxTopK, kMaxTopK + 1}) {
    ProgramDraft draft(NumberType::kFloat32);
    const ValueNumber x = draft.Input(NumberType::kFloat32, 2 * kMaxTopK);
    const ValueNumber best = draft.TopK(x, k);
    absl::StatusOr<CheckedProgram> checked =
        CheckProgram(draft.Finish({best}), {}, limits);
    ASSERT_TRUE(checked.ok()) << checked.status();
    const absl::Status status =
        CpuProgram::Create(
            std::make_shared<const CheckedProgram>(*std::move(checked)), {})
            .status();
    EXPECT_EQ(status.code(), k == kMaxTopK ? absl::StatusCode::kOk
                                           : absl::StatusCode::kUnimplemented)
        << status;
  }
}

// A layer on the CPU, without queue and thread.
class LoadedLayer {
 public:
  LoadedLayer(const WorkedProgram& worked, RandomGenerator* random) {
    const LoadedProgram loaded =
        RandomWeightsOf(worked, WeightsRecipeNamed("kbit4"), random);
    auto checked = std::make_shared<const CheckedProgram>(
        Checked(worked.program, loaded.shapes));
    WeightsOfProgram weights;
    for (const CanonicalWeights* layer : loaded.In(*checked)) {
      CpuWeightsBuilder builder(limits_, {&budget_, nullptr});
      CHECK_OK(WriteWhole(*layer, &builder));
      auto resident = builder.Finish();
      CHECK_OK(resident.status());
      weights.push_back(*std::move(resident));
    }
    auto program = CpuProgram::Create(std::move(checked), std::move(weights));
    CHECK_OK(program.status());
    program_ = *std::move(program);
  }

  const CheckedProgram& program() const { return program_->program(); }

  std::vector<uint8_t> RandomInputs(int64_t m, RandomGenerator* random) const {
    std::vector<uint8_t> inputs;
    for (const ProgramInput& input : program().program().inputs) {
      const std::vector<uint8_t> rows =
          RandomMatrix(FloatTypeOf(input.type), m, input.width, random);
      inputs.insert(inputs.end(), rows.begin(), rows.end());
    }
    return inputs;
  }

  // Outputs of one request of m rows in two segments, and the times of ops.
  std::vector<uint8_t> Run(ProgramExecutor* executor,
                           const std::vector<uint8_t>& inputs, int64_t m) {
    return Run(executor, inputs, m, /*time_ops=*/false).outputs;
  }
  struct TimedRun {
    std::vector<uint8_t> outputs;
    std::vector<absl::Duration> op_times;
  };
  TimedRun Run(ProgramExecutor* executor, const std::vector<uint8_t>& inputs,
               int64_t m, bool time_ops) {
    TimedRun run;
    run.outputs.resize(m * program().output_row_bytes());
    uint8_t* const outputs = run.outputs.data();
    ProgramBatch batch;
    batch.program = program_;
    batch.segments = {{m, 0, m / 3, inputs.data(), outputs},
                      {m, m / 3, m - m / 3, inputs.data(), outputs}};
    batch.time_ops = time_ops;
    absl::StatusOr<std::vector<absl::Duration>> times = executor->Run(batch);
    CHECK_OK(times.status());
    run.op_times = *std::move(times);
    return run;
  }

 private:
  const BackendLimits limits_ = {1 << 20, 1 << 20, 1 << 14};
  ByteBudget budget_{{"test", int64_t{1} << 30, "", nullptr}};
  std::shared_ptr<const CpuProgram> program_;
};

TEST(ProgramExecutorTest, NeitherTilesNorThreadsChangeBits) {
  constexpr int64_t kRows = 41;
  RandomGenerator random(FreshSeed());
  for (const NumberType type : {NumberType::kFloat16, NumberType::kBFloat16}) {
    LoadedLayer layer(GemmaLayer(kShape, {type, NumberType::kFloat32}),
                      &random);
    const std::vector<uint8_t> inputs = layer.RandomInputs(kRows, &random);
    BatchRunner one(SupportedCpuIsas().back(), 1);
    ProgramExecutor whole(&one);
    const std::vector<uint8_t> expected = layer.Run(&whole, inputs, kRows);
    for (const int threads : {1, 3}) {
      BatchRunner runner(SupportedCpuIsas().back(), threads);
      const int64_t row_bytes = layer.program().scratch_row_bytes();
      for (const int64_t rows : {0, 1, 3, 33}) {
        ProgramExecutor executor(&runner, rows * (row_bytes + 64 * 5));
        EXPECT_TRUE(layer.Run(&executor, inputs, kRows) == expected)
            << threads << " threads, scratch for " << rows << " rows";
        EXPECT_TRUE(layer.Run(&executor, inputs, kRows) == expected)
            << "again, in the memory of the last batch";
      }
    }
  }
}

TEST(ProgramExecutorTest, TimesOfOpsChangeNoBits) {
  RandomGenerator random(FreshSeed());
  LoadedLayer layer(GemmaLayer(kShape, {}), &random);
  for (const int64_t m : {3, 41}) {
    const std::vector<uint8_t> inputs = layer.RandomInputs(m, &random);
    for (const int threads : {1, 3}) {
      BatchRunner runner(SupportedCpuIsas().back(), threads);
      ProgramExecutor executor(&runner);
      const std::vector<uint8_t> expected = layer.Run(&executor, inputs, m);
      const auto timed = layer.Run(&executor, inputs, m, /*time_ops=*/true);
      EXPECT_TRUE(timed.outputs == expected) << m << " rows";
      ASSERT_EQ(timed.op_times.size(), layer.program().ops().size());
      EXPECT_GT(std::accumulate(timed.op_times.begin(), timed.op_times.end(),
                                absl::ZeroDuration()),
                absl::ZeroDuration());
      EXPECT_TRUE(
          layer.Run(&executor, inputs, m, /*time_ops=*/false).op_times.empty());
    }
  }
}

TEST(ProgramExecutorTest, ItsLoopsAreProgress) {
  RandomGenerator random(FreshSeed());
  LoadedLayer layer(LlamaLayer(kShape, {}), &random);
  const std::vector<uint8_t> inputs(layer.program().input_row_bytes() * 3);
  BatchRunner runner(SupportedCpuIsas().back(), 2);
  ProgramExecutor executor(&runner);
  const uint64_t before = runner.progress();
  layer.Run(&executor, inputs, 3);
  // An item for each op at least.
  EXPECT_GE(runner.progress(), before + layer.program().ops().size());
}

// A launch of two wide activations, whose scratch is that of one of them.
void RunWide(int64_t rows, ProgramExecutor* executor) {
  constexpr int64_t kWidth = 1 << 18;
  ProgramDraft draft(NumberType::kFloat32);
  ValueNumber x = draft.Input(NumberType::kFloat32, kWidth);
  x = draft.Slice(draft.Act(x, Activation::kRelu), 0, 1);
  auto program = CpuProgram::Create(
      std::make_shared<const CheckedProgram>(Checked(draft.Finish({x}))), {});
  CHECK_OK(program.status());
  const std::vector<uint8_t> inputs(rows * kWidth * sizeof(float));
  std::vector<uint8_t> outputs(rows * sizeof(float));
  ProgramBatch batch = {*std::move(program),
                        {{rows, 0, rows, inputs.data(), outputs.data()}}};
  CHECK_OK(executor->Run(batch).status());
}

TEST(ProgramExecutorTest, GivesLargeScratchBackAndKeepsOther) {
  BatchRunner runner(SupportedCpuIsas().back(), 2);
  ProgramExecutor executor(&runner);
  RunWide(3, &executor);
  const int64_t kept = executor.scratch_bytes();
  EXPECT_GE(kept, 3 << 20);
  RunWide(17, &executor);
  EXPECT_EQ(executor.scratch_bytes(), 0);
}

}  // namespace
}  // namespace qgemm::cpu
