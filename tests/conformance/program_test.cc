// SPDX-License-Identifier: Apache-2.0
//
// Whole programs: the worked layers op by op, equal bits in any batch and by
// any part of a request, the order with other batches, and what is refused.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/batch_run.h"
#include "tests/conformance/program_fixture.h"
#include "tests/support/program_layers.h"

namespace qgemm {
namespace {

constexpr LayerShape kShape = {64, 64, 32, 32, 96};

class ProgramTest : public PerProgramBackendTest {
 protected:
  LoadedProgram RandomWeightsFor(const WorkedProgram& worked,
                                 const std::string& recipe) {
    return RandomWeightsOf(worked, WeightsRecipeNamed(recipe), random());
  }

  ProgramRequest Request(const CheckedProgram& program, int64_t m) {
    return {m, RandomInputs(program, m), {}};
  }
};

// A request of m rows in parts of the given rows, one behind the other.
std::vector<RequestPart> PartsOf(const std::vector<int64_t>& rows) {
  std::vector<RequestPart> parts;
  int64_t first = 0;
  for (const int64_t count : rows) {
    parts.push_back({first, count});
    first += count;
  }
  return parts;
}

// The outputs of `part` among those of every result.
std::vector<uint8_t> OutputsAmong(const CheckedProgram& all,
                                  const std::vector<ValueNumber>& chosen,
                                  int64_t m,
                                  const std::vector<uint8_t>& outputs) {
  std::vector<uint8_t> result;
  for (const ValueNumber number : chosen) {
    auto begin = outputs.begin();
    for (const ValueNumber other : all.program().outputs) {
      if (other == number) break;
      begin += m * all.values()[other].row_bytes();
    }
    result.insert(result.end(), begin,
                  begin + m * all.values()[number].row_bytes());
  }
  return result;
}

// Each op is judged on the backend's own values, which are outputs of a second
// program; those of the first must have the same bits.
TEST_P(ProgramTest, WorkedLayersAreRightOpByOp) {
  const LayerTypes types[] = {
      {NumberType::kBFloat16, NumberType::kFloat32},
      {NumberType::kFloat16, NumberType::kFloat16},
  };
  const char* const recipes[] = {"dense_bf16_bias", "kbit4"};
  for (size_t i = 0; i < std::size(types); ++i) {
    for (const WorkedProgram& worked : WorkedPrograms(kShape, types[i])) {
      // The extents of EveryOp are below a group of the other formats.
      const LoadedProgram loaded = RandomWeightsFor(
          worked, worked.name == "every_op" ? "dense_fp16" : recipes[i]);
      const CheckedProgram program =
          CheckedOrDie(worked.program, loaded.shapes);
      const CheckedProgram all =
          CheckedOrDie(WithAllOutputs(program), loaded.shapes);
      const std::vector<const CanonicalWeights*> weights = loaded.In(program);
      const int64_t m = i == 0 ? 3 : 17;
      const ProgramRequest request = Request(program, m);
      const ProgramResults every =
          RunProgram(backend(), {Compiled(all, weights), {request}});
      ExpectEachOpIsRight(all, weights, request, every[0]);
      const ProgramResults outputs =
          RunProgram(backend(), {Compiled(program, weights), {request}});
      EXPECT_TRUE(outputs[0] ==
                  OutputsAmong(all, worked.program.outputs, m, every[0]))
          << worked.name;
    }
  }
}

TEST_P(ProgramTest, ARequestHasItsBitsAtAnyPlaceInAnyBatch) {
  constexpr int64_t kRequestRows[] = {1, 3, 16, 2, 65, 1, 9};
  for (const NumberType value : {NumberType::kFloat16, NumberType::kBFloat16}) {
    const WorkedProgram worked =
        Qwen3Layer(kShape, {value, NumberType::kFloat32});
    const LoadedProgram loaded = RandomWeightsFor(worked, "kbit4");
    const CheckedProgram program = CheckedOrDie(worked.program, loaded.shapes);
    const auto compiled = Compiled(program, loaded.In(program));
    std::vector<ProgramRequest> requests;
    ProgramResults alone;
    for (const int64_t rows : kRequestRows) {
      requests.push_back(Request(program, rows));
      alone.push_back(RunProgram(backend(), {compiled, {requests.back()}})[0]);
    }
    std::vector<size_t> order(requests.size());
    std::iota(order.begin(), order.end(), 0);
    for (const int poison : {0x00, 0x5a, 0xff}) {
      std::shuffle(order.begin(), order.end(), *random());
      ProgramSpec spec = {compiled, {}, static_cast<uint8_t>(poison)};
      for (const size_t i : order) spec.requests.push_back(requests[i]);
      const ProgramResults results = RunProgram(backend(), std::move(spec));
      for (size_t i = 0; i < order.size(); ++i) {
        EXPECT_TRUE(results[i] == alone[order[i]])
            << requests[order[i]].m << " rows at place " << i;
      }
    }
  }
}

TEST_P(ProgramTest, ARowAloneHasTheBitsThatItHasAmongTwins) {
  constexpr int64_t kTwins = 5;
  const WorkedProgram worked = LlamaLayer(kShape, {});
  const LoadedProgram loaded = RandomWeightsFor(worked, "kbit4");
  const CheckedProgram program = CheckedOrDie(worked.program, loaded.shapes);
  const auto compiled = Compiled(program, loaded.In(program));
  const ProgramRequest row = Request(program, 1);
  const ProgramResults alone = RunProgram(backend(), {compiled, {row}});
  ProgramSpec spec = {compiled, std::vector<ProgramRequest>(kTwins, row)};
  spec.requests.push_back(Request(program, 40));
  const ProgramResults results = RunProgram(backend(), std::move(spec));
  for (int64_t i = 0; i < kTwins; ++i) {
    EXPECT_TRUE(results[i] == alone[0]) << "twin " << i;
  }
}

// Odd widths: values start at addresses that their elements' size does not
// divide, and so do rows.
TEST_P(ProgramTest, PartsOfARequestAreItsRows) {
  constexpr int64_t kM = 21;
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber half = draft.Input(NumberType::kBFloat16, 5);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 7);
  const ValueNumber short_half = draft.Convert(half, NumberType::kFloat16);
  const ValueNumber product = draft.Gemm(half, "w");
  const ValueNumber sum = draft.Add(x, product);
  const ValueNumber best = draft.TopK(draft.Act(sum, Activation::kSilu), 3);
  const CanonicalWeights weights =
      RandomWeights(WeightsRecipeNamed("dense_bf16"), 7, 5, random());
  const ProgramWeightsMap shapes = {
      {"w", {WeightsIdOf("w"), weights.header()}}};
  const CheckedProgram program = CheckedOrDie(
      draft.Finish({short_half, product, sum, best - 1, best + 1, best}),
      shapes);
  const auto compiled = Compiled(program, {&weights});
  ProgramRequest request = Request(program, kM);
  request.parts = PartsOf({1, 9, 3, 8});
  const ProgramResults together = RunProgram(backend(), {compiled, {request}});
  ExpectEachOpIsRight(program, {&weights}, request, together[0]);
  for (const RequestPart& part : PartsOf({1, 9, 3, 8})) {
    request.parts = {part};
    const ProgramResults apart = RunProgram(backend(), {compiled, {request}});
    int64_t offset = 0;
    for (const ValueNumber number : program.program().outputs) {
      const int64_t row_bytes = program.values()[number].row_bytes();
      const auto begin = together[0].begin() + offset + part.first * row_bytes;
      EXPECT_TRUE(
          std::equal(begin, begin + part.rows * row_bytes,
                     apart[0].begin() + offset + part.first * row_bytes))
          << "rows from " << part.first << " on, value " << number;
      offset += kM * row_bytes;
    }
  }
}

TEST_P(ProgramTest, TimesOfOpsAreAllOrNoneAndChangeNoBits) {
  const WorkedProgram worked = LlamaLayer(kShape, {});
  const LoadedProgram loaded = RandomWeightsFor(worked, "kbit4");
  const CheckedProgram program = CheckedOrDie(worked.program, loaded.shapes);
  const auto compiled = Compiled(program, loaded.In(program));
  for (const int64_t m : {1, 21}) {
    ProgramSpec spec = {compiled, {Request(program, m)}};
    ProgramRun untimed(backend(), spec);
    ASSERT_EQ(untimed.Enqueue(), absl::OkStatus());
    const ProgramResults expected = untimed.Wait();
    EXPECT_TRUE(untimed.op_times().empty());
    spec.time_ops = true;
    ProgramRun timed(backend(), spec);
    ASSERT_EQ(timed.Enqueue(), absl::OkStatus());
    EXPECT_TRUE(timed.Wait() == expected);
    const size_t times = timed.op_times().size();
    EXPECT_TRUE(times == 0 || times == program.ops().size()) << times;
  }
}

TEST_P(ProgramTest, RunsBesideOtherBatchesFromManyThreads) {
  constexpr int kThreads = 3;
  constexpr int kBatches = 30;
  const WorkedProgram worked = LlamaLayer(kShape, {});
  const LoadedProgram loaded = RandomWeightsFor(worked, "kbit4");
  const CheckedProgram program = CheckedOrDie(worked.program, loaded.shapes);
  const auto compiled = Compiled(program, loaded.In(program));
  const ProgramSpec spec = {compiled, {Request(program, 3)}};
  const ProgramResults expected = RunProgram(backend(), spec);
  const BatchSpec gemm = {
      compiled->weights()[0],
      program.signature_of(0),
      {{2, RandomMatrix(FloatType::kBFloat16, 2, kShape.q, random())}}};
  const BatchResults product = RunBatch(backend(), gemm);
  std::vector<std::unique_ptr<ProgramRun>> runs;
  std::vector<std::unique_ptr<BatchRun>> gemms;
  for (int i = 0; i < kBatches; ++i) {
    runs.push_back(std::make_unique<ProgramRun>(backend(), spec));
    gemms.push_back(std::make_unique<BatchRun>(backend(), gemm));
  }
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&runs, &gemms, thread] {
      for (int i = thread; i < kBatches; i += kThreads) {
        CHECK_OK(runs[i]->Enqueue());
        CHECK_OK(gemms[i]->Enqueue());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kBatches; ++i) {
    EXPECT_TRUE(runs[i]->Wait() == expected);
    EXPECT_TRUE(gemms[i]->Wait() == product);
  }
  for (int i = 0; i < kBatches; ++i) {
    EXPECT_EQ(runs[i]->completions(), 1);
    EXPECT_EQ(gemms[i]->completions(), 1);
  }
}

// A program of one op, x + x.
CheckedProgram Doubling() {
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 3);
  return CheckedOrDie(draft.Finish({draft.Add(x, x)}));
}

TEST_P(ProgramTest, DestroyingTheBackendWaitsForEveryBatch) {
  constexpr int kBatches = 20;
  std::atomic<int> completions{0};
  auto compiled = Compiled(Doubling());
  for (int i = 0; i < kBatches; ++i) {
    absl::StatusOr<StagingLease> lease = backend()->AcquireStaging(256);
    CHECK(lease.ok()) << lease.status();
    uint8_t* const memory = lease->data();
    ProgramBatch batch = {compiled, {{5, 0, 5, memory, memory + 128}}};
    ASSERT_EQ(backend()->programs()->EnqueueProgram(
                  std::move(batch),
                  [&completions, held = *std::move(lease)](
                      absl::Status status, const BatchTimings&,
                      ProgramBatch) mutable {
                    EXPECT_EQ(status, absl::OkStatus());
                    held = StagingLease();
                    ++completions;
                  }),
              absl::OkStatus());
  }
  compiled.reset();
  DestroyBackend();
  EXPECT_EQ(completions.load(), kBatches);
}

TEST_P(ProgramTest, RefusesBatchesThatAreNone) {
  const auto compiled = Compiled(Doubling());
  absl::StatusOr<StagingLease> lease = backend()->AcquireStaging(256);
  CHECK(lease.ok()) << lease.status();
  const uint8_t* const in = lease->data();
  uint8_t* const out = lease->data() + 128;
  const int64_t most = backend()->limits().max_batch_rows;
  const std::vector<ProgramBatch> refused = {
      {nullptr, {{1, 0, 1, in, out}}},
      {compiled, {}},
      {compiled, {{2, 0, 0, in, out}}},
      {compiled, {{2, -1, 1, in, out}}},
      {compiled, {{2, 1, 2, in, out}}},
      {compiled, {{2, 0, 1, nullptr, out}}},
      {compiled, {{2, 0, 1, in, nullptr}}},
      {compiled, {{most + 1, 0, most + 1, in, out}}},
      {compiled, {{1, 0, 1, in, out}, {most, 0, most, in, out}}}};
  std::atomic<int> completions{0};
  for (size_t i = 0; i < refused.size(); ++i) {
    EXPECT_EQ(
        backend()
            ->programs()
            ->EnqueueProgram(refused[i],
                             [&completions](absl::Status, const BatchTimings&,
                                            ProgramBatch) { ++completions; })
            .code(),
        absl::StatusCode::kInvalidArgument)
        << i;
  }
  // A completion of theirs would run before this one's.
  RunProgram(backend(), {compiled, {Request(compiled->program(), 1)}});
  EXPECT_EQ(completions.load(), 0);
}

TEST_P(ProgramTest, TakesTheMostRowsThatItsLimitsName) {
  const CheckedProgram program = Doubling();
  const ProgramRequest request =
      Request(program, backend()->limits().max_batch_rows);
  const ProgramResults results =
      RunProgram(backend(), {Compiled(program), {request}});
  ExpectEachOpIsRight(program, {}, request, results[0]);
}

// The program is checked against shapes that promise a mode which the resident
// weights lack.
TEST_P(ProgramTest, CompileNamesTheGemmThatItsWeightsDoNotOffer) {
  const CanonicalWeights weights =
      RandomWeights(WeightsRecipeNamed("dense_fp16"), 8, 8, random());
  WeightsShape promised = weights.header();
  promised.integer_codes = true;
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 8);
  const ValueNumber sum = draft.Add(x, x);
  const ValueNumber c = draft.Gemm(sum, "w");
  draft.last().mode = ComputeMode::kA32;
  const CheckedProgram program =
      CheckedOrDie(draft.Finish({c}), {{"w", {WeightsIdOf("w"), promised}}});
  const absl::Status status =
      LoadAndCompile(backend(), program, {&weights}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_EQ(status.message().find("op 1 (gemm): "), 0) << status;
}

INSTANTIATE_TEST_SUITE_P(Backends, ProgramTest,
                         testing::ValuesIn(ConformanceBackends()), BackendName);

}  // namespace
}  // namespace qgemm
