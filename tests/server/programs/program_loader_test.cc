// SPDX-License-Identifier: Apache-2.0
//
// The order of a load's steps, seen through a backend that compiles nothing:
// which programs are new, which errors come first, and that those leave
// nothing behind.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/programs/canonical_text.h"
#include "server/programs/program_store.h"
#include "tests/server/programs/counted_program.h"
#include "tests/server/weights/counted_weights.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCompiledBytes = 500;
constexpr int64_t kBudgetBytes = 100000;

std::string Id(int64_t number) { return absl::StrFormat("%064x", number); }

// Compiles programs that count themselves, unless it is told to fail or to have
// no programs at all. Multiplies nothing.
class StubBackend final : public Backend, private ProgramRunner {
 public:
  bool runs_programs = true;
  absl::Status compile_status;
  int compilations = 0;
  std::atomic<int64_t> live{0};

  ProgramRunner* programs() override { return runs_programs ? this : nullptr; }
  absl::StatusOr<std::shared_ptr<const CompiledProgram>> Compile(
      std::shared_ptr<const CheckedProgram> program,
      WeightsOfProgram weights) override {
    if (!compile_status.ok()) return compile_status;
    ++compilations;
    return std::make_shared<CountedProgram>(
        std::move(program), std::move(weights), kCompiledBytes, &live);
  }
  absl::Status EnqueueProgram(ProgramBatch, ProgramCompletion) override {
    return Unused();
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    return Unused();
  }
  int64_t EstimateResidentBytes(const WeightsShape&) const override {
    return 0;
  }
  absl::StatusOr<StagingLease> AcquireStaging(int64_t) override {
    return Unused();
  }
  absl::Status CheckSupport(const ResidentWeights&,
                            const MatmulSignature&) const override {
    return absl::OkStatus();
  }
  absl::Status Enqueue(GemmBatch, BatchCompletion) override { return Unused(); }
  BackendLimits limits() const override { return {}; }
  BackendDescription describe() const override { return {"stub", "", "", 1}; }
  BackendMemory memory() const override { return {}; }

 private:
  static absl::Status Unused() { return absl::InternalError("unused"); }
};

class ProgramLoaderTest : public testing::Test {
 protected:
  // A ternary layer of [width, width].
  void LoadLayer(int64_t number, const std::string& name, int64_t width = 32) {
    Weights layer;
    layer.id = Id(number);
    layer.spec.format = WireFormat::kTernary;
    layer.spec.n = layer.spec.k = width;
    layer.resident = std::make_shared<CountedWeights>(width, 0, &live_layers_);
    auto reservation = weights_.Reserve(kAnybody, 0);
    ASSERT_TRUE(reservation.ok());
    ASSERT_TRUE(weights_
                    .Commit(kAnybody, std::move(layer), *std::move(reservation),
                            {name, false, ""})
                    .ok());
  }

  absl::StatusOr<LoadProgramResult> TryLoad(Program program,
                                            const NameBinding& binding) {
    return loader_.Load(kAnybody, std::move(program), binding);
  }

  LoadProgramResult Load(Program program, const std::string& name) {
    auto loaded = TryLoad(std::move(program), {name, false, ""});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *loaded;
  }

  // The status of a load that leaves everything as it was.
  absl::Status Refused(Program program, const NameBinding& binding = {}) {
    const int64_t programs = programs_.program_count(kAnybody);
    const int64_t reserved = weights_.reserved_bytes();
    const int64_t live = backend_.live;
    const absl::Status status = TryLoad(std::move(program), binding).status();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(programs_.program_count(kAnybody), programs);
    EXPECT_EQ(weights_.reserved_bytes(), reserved);
    EXPECT_EQ(backend_.live, live);
    return status;
  }

  StubBackend backend_;
  std::atomic<int64_t> live_layers_{0};
  WeightStore weights_{StoreLimits{kBudgetBytes}};
  ProgramStore programs_{{/*max_programs=*/3, /*max_names=*/3}, &weights_};
  const ProgramLoader loader_{&backend_, &weights_, &programs_};
};

TEST_F(ProgramLoaderTest, CompilesAProgramWithItsWeightsAndBindsItsName) {
  LoadLayer(7, "layer");
  const int64_t before = weights_.reserved_bytes();
  const LoadProgramResult loaded = Load(GemmProgram("layer", 32), "program");
  EXPECT_FALSE(loaded.deduplicated);
  const ResidentProgram& program = *loaded.program;
  EXPECT_EQ(*programs_.Find(kAnybody, "program"), loaded.program);
  EXPECT_EQ(program.id, ProgramId(program.compiled->program()));
  EXPECT_EQ(program.text, CanonicalText(program.compiled->program()));
  EXPECT_THAT(program.text, HasSubstr("weights=" + Id(7)));
  ASSERT_EQ(program.compiled->weights().size(), 1u);
  EXPECT_EQ(program.compiled->weights()[0],
            (*weights_.Find(kAnybody, Id(7)))->resident);
  EXPECT_EQ(program.reserved_bytes,
            kCompiledBytes +
                ProgramRecordBytes(program.compiled->program(), program.text));
  EXPECT_EQ(weights_.reserved_bytes(),
            before + program.reserved_bytes + kNameRecordBytes);
}

TEST_F(ProgramLoaderTest, TheSameProgramUnderOtherNamesIsThereAlready) {
  LoadLayer(7, "layer");
  LoadLayer(7, "alias");
  const LoadProgramResult first = Load(GemmProgram("layer", 32), "program");
  for (const std::string& weights :
       {std::string("layer"), std::string("alias"), Id(7)}) {
    Program program = GemmProgram(weights, 32);
    program.ops[0].name = "other";
    const LoadProgramResult again = Load(std::move(program), "program");
    EXPECT_TRUE(again.deduplicated);
    EXPECT_EQ(again.program, first.program);
  }
  EXPECT_EQ(backend_.compilations, 1);
  EXPECT_EQ(programs_.Get(kAnybody, "program")->name_count, 1);
  EXPECT_TRUE(Load(GemmProgram("layer", 32), "another").deduplicated);
  EXPECT_EQ(programs_.Get(kAnybody, "program")->name_count, 2);
}

TEST_F(ProgramLoaderTest, ANameOfWeightsThatMovesMakesAnotherProgram) {
  LoadLayer(7, "layer");
  const LoadProgramResult first = Load(GemmProgram("layer", 32), "first");
  LoadLayer(8, "layer");
  EXPECT_EQ(live_layers_, 2);
  const LoadProgramResult second = Load(GemmProgram("layer", 32), "second");
  EXPECT_FALSE(second.deduplicated);
  EXPECT_NE(second.program->id, first.program->id);
  EXPECT_NE(second.program->compiled->weights(),
            first.program->compiled->weights());
}

TEST_F(ProgramLoaderTest, ALayerIsKeptOnceWhateverItIsCalled) {
  LoadLayer(7, "a");
  LoadLayer(7, "b");
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 32);
  const ValueNumber y = draft.Gemm(draft.Gemm(draft.Gemm(x, "a"), "b"), Id(7));
  const LoadProgramResult loaded = Load(draft.Finish({y}), "program");
  EXPECT_EQ(loaded.program->compiled->weights().size(), 1u);
}

TEST_F(ProgramLoaderTest, ABackendWithoutProgramsSaysSo) {
  backend_.runs_programs = false;
  const absl::Status status = Refused(SiluProgram(8));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "backend stub runs no programs; cpu, cuda and reference do");
}

TEST_F(ProgramLoaderTest, NamesTheOpWhoseWeightsAreUnknownOrDoNotFit) {
  EXPECT_EQ(Refused(GemmProgram("nobody", 32)).ToString(),
            "NOT_FOUND: op 0 (gemm): weights nobody are not loaded");
  LoadLayer(7, "layer");
  EXPECT_EQ(Refused(GemmProgram("layer", 64)).ToString(),
            "INVALID_ARGUMENT: op 0 (gemm): value 0 has width 64; weights "
            "layer has k = 32");
  Program program = GemmProgram("layer", 32);
  program.ops[0].mode = ComputeMode::kA8;
  EXPECT_EQ(Refused(std::move(program)).code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(ProgramLoaderTest, TooManyOpsAreRefusedBeforeTheirWeightsAreSought) {
  Program program = GemmProgram("nobody", 32);
  program.ops.resize(100000, program.ops[0]);
  EXPECT_EQ(Refused(std::move(program)).ToString(),
            "INVALID_ARGUMENT: program: 100000 ops; at most 64");
}

TEST_F(ProgramLoaderTest, RefusesConditionsAndNamesBeforeItCompiles) {
  Load(SiluProgram(8), "a");
  EXPECT_EQ(Refused(SiluProgram(9), {"a b", false, ""}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused(SiluProgram(9), {"a", true, ""}).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Refused(SiluProgram(9), {"a", false, Id(1)}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(backend_.compilations, 1);
  EXPECT_TRUE(TryLoad(SiluProgram(8), {"a", true, ""})->deduplicated);
}

TEST_F(ProgramLoaderTest, RefusesProgramsBeyondTheLimitBeforeItCompiles) {
  for (int64_t width = 1; width <= 3; ++width) Load(SiluProgram(width), "");
  EXPECT_THAT(Refused(SiluProgram(4)).message(), HasSubstr("--max_programs"));
  EXPECT_EQ(backend_.compilations, 3);
}

TEST_F(ProgramLoaderTest, RefusesAProgramBeyondTheBudgetBeforeItCompiles) {
  auto others =
      weights_.Reserve(kAnybody, kBudgetBytes - weights_.reserved_bytes());
  EXPECT_EQ(Refused(SiluProgram(8)).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend_.compilations, 0);
}

TEST_F(ProgramLoaderTest, RefusesAProgramWhoseCompiledFormIsBeyondTheBudget) {
  const int64_t taken = Load(SiluProgram(8), "").program->reserved_bytes;
  auto others = weights_.Reserve(
      kAnybody, kBudgetBytes - weights_.reserved_bytes() - (taken - 1));
  EXPECT_EQ(Refused(SiluProgram(9)).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend_.compilations, 2);
}

TEST_F(ProgramLoaderTest, AnErrorOfTheBackendLeavesNothingBehind) {
  backend_.compile_status = absl::ResourceExhaustedError("no device memory");
  EXPECT_EQ(Refused(SiluProgram(8), {"a", false, ""}), backend_.compile_status);
  EXPECT_FALSE(programs_.Find(kAnybody, "a").ok());
}

}  // namespace
}  // namespace qgemm
