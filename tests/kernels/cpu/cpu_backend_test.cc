// SPDX-License-Identifier: Apache-2.0
//
// Properties of the CPU backend that the conformance suite cannot know: equal
// bits for any number of threads and any panels, accounting, options, refusals.

#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/support.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/programs/program_runner.h"
#include "tests/kernels/cpu/one_request.h"
#include "tests/support/panel_writer.h"
#include "tests/support/program_layers.h"
#include "tests/support/random_matrix.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm::cpu {
namespace {

std::unique_ptr<Backend> MakeBackend(const CpuOptions& options) {
  auto backend = CreateCpuBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

std::unique_ptr<Backend> WithThreads(int threads) {
  CpuOptions options;
  options.threads = threads;
  return MakeBackend(options);
}

class CpuBackendRecipeTest : public testing::TestWithParam<WeightsRecipe> {
 protected:
  int64_t OddK() const { return RoundUp(301, GetParam().k_multiple); }

  CanonicalWeights OddLayer() {
    return RandomWeights(GetParam(), 53, OddK(), &random_);
  }

  RandomGenerator random_{FreshSeed()};
};

TEST_P(CpuBackendRecipeTest, ThreadsDoNotChangeBits) {
  const CanonicalWeights layer = OddLayer();
  const MatmulSignature signature;
  const std::vector<uint8_t> a =
      RandomMatrix(signature.a_type, 11, layer.header().k, &random_);
  std::vector<std::vector<uint8_t>> results;
  for (int threads : {1, 2, 5}) {
    const auto backend = WithThreads(threads);
    results.push_back(RunRequest(backend.get(), LoadWhole(backend.get(), layer),
                                 signature, 11, a));
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST_P(CpuBackendRecipeTest, PanelsDoNotChangeBits) {
  const CanonicalWeights layer = OddLayer();
  const MatmulSignature signature;
  const std::vector<uint8_t> a =
      RandomMatrix(signature.a_type, 3, layer.header().k, &random_);
  const auto backend = WithThreads(2);
  auto builder = backend->NewBuilder();
  ASSERT_TRUE(builder.ok()) << builder.status();
  ASSERT_EQ(WriteInRandomPanels(layer, &random_, builder->get()),
            absl::OkStatus());
  auto pieces = (*builder)->Finish();
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  EXPECT_EQ(RunRequest(backend.get(), *pieces, signature, 3, a),
            RunRequest(backend.get(), LoadWhole(backend.get(), layer),
                       signature, 3, a));
}

// Some instruction sets multiply requests of 8 rows and of 128 in their own
// way.
TEST_P(CpuBackendRecipeTest, ChunksHaveTheBitsOfTheWholeRequest) {
  const CanonicalWeights layer = OddLayer();
  const auto backend = WithThreads(2);
  const auto weights = LoadWhole(backend.get(), layer);
  for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
    const MatmulSignature signature = {type, FloatType::kFloat32};
    for (const std::vector<int64_t>& parts :
         {std::vector<int64_t>{5, 4}, {96, 33, 3}}) {
      const int64_t rows =
          std::accumulate(parts.begin(), parts.end(), int64_t{0});
      const std::vector<uint8_t> a =
          RandomMatrix(type, rows, layer.header().k, &random_);
      EXPECT_EQ(RunInParts(backend.get(), weights, signature, parts, a),
                RunRequest(backend.get(), weights, signature, rows, a))
          << Name(type) << ", " << rows << " rows";
    }
  }
}

TEST_P(CpuBackendRecipeTest, ANanIsThatOfItsRowAmongMany) {
  constexpr int64_t kRows = 130;
  const CanonicalWeights layer = OddLayer();
  const int64_t k = layer.header().k;
  const auto backend = WithThreads(2);
  const auto weights = LoadWhole(backend.get(), layer);
  for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
    const MatmulSignature signature = {type, FloatType::kFloat32};
    std::vector<uint8_t> a = RandomMatrix(type, kRows, k, &random_);
    std::vector<uint8_t> expected =
        RunRequest(backend.get(), weights, signature, kRows, a);
    const int64_t row = RandomInt(0, kRows - 1, &random_);
    StoreFloat(type, std::numeric_limits<float>::quiet_NaN(),
               &a[(row * k + RandomInt(0, k - 1, &random_)) * SizeOf(type)]);
    const std::vector<uint8_t> c =
        RunRequest(backend.get(), weights, signature, kRows, a);
    const int64_t row_bytes = weights->n() * sizeof(float);
    for (int64_t i = row * row_bytes; i < (row + 1) * row_bytes;
         i += sizeof(float)) {
      EXPECT_TRUE(std::isnan(LoadFloat(FloatType::kFloat32, &c[i])));
      std::copy_n(&c[i], sizeof(float), &expected[i]);
    }
    EXPECT_EQ(c, expected) << Name(type) << ", row " << row;
  }
}

TEST_P(CpuBackendRecipeTest, HoldsTheEstimateAndGivesItBack) {
  const CanonicalWeights layer = OddLayer();
  const auto backend = WithThreads(1);
  {
    const auto weights = LoadWhole(backend.get(), layer);
    EXPECT_EQ(weights->resident_bytes(),
              backend->EstimateResidentBytes(layer.header()));
    EXPECT_EQ(backend->memory().weights_bytes, weights->resident_bytes());
  }
  EXPECT_EQ(backend->memory().weights_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Recipes, CpuBackendRecipeTest,
                         testing::ValuesIn(AllWeightsRecipes()),
                         [](const testing::TestParamInfo<WeightsRecipe>& info) {
                           return info.param.name;
                         });

WeightsHeader LargeHeader() {
  WeightsHeader header;
  header.n = 4096;
  header.k = 4096;
  header.bits = 4;
  header.codebook.assign(16, 1.0f);
  header.group_size = 32;
  return header;
}

TEST(CpuBackendTest, RefusesWeightsBeyondItsLimit) {
  CpuOptions options;
  options.max_weights_bytes = 1 << 20;
  const auto backend = MakeBackend(options);
  auto builder = backend->NewBuilder();
  ASSERT_TRUE(builder.ok()) << builder.status();
  EXPECT_EQ((*builder)->Begin(LargeHeader()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend->memory().weights_bytes, 0);
}

TEST(CpuBackendTest, RefusesShapesBeyondItsLimit) {
  CpuOptions options;
  options.max_n = 4095;
  const auto backend = MakeBackend(options);
  auto builder = backend->NewBuilder();
  ASSERT_TRUE(builder.ok()) << builder.status();
  EXPECT_EQ((*builder)->Begin(LargeHeader()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CpuBackendTest, DroppedBuilderGivesItsMemoryBack) {
  const auto backend = WithThreads(1);
  {
    auto builder = backend->NewBuilder();
    ASSERT_TRUE(builder.ok()) << builder.status();
    ASSERT_EQ((*builder)->Begin(LargeHeader()), absl::OkStatus());
    EXPECT_GT(backend->memory().weights_bytes, 0);
  }
  EXPECT_EQ(backend->memory().weights_bytes, 0);
}

TEST(CpuBackendTest, SaysWhichModesAreOffered) {
  RandomGenerator random(FreshSeed());
  const auto backend = WithThreads(1);
  const auto weights =
      LoadWhole(backend.get(),
                RandomWeights(WeightsRecipeNamed("q4_0"), 16, 32, &random));
  MatmulSignature signature;
  signature.mode = ComputeMode::kA8;
  EXPECT_EQ(backend->CheckSupport(*weights, signature), absl::OkStatus());
  const auto ternary =
      LoadWhole(backend.get(),
                RandomWeights(WeightsRecipeNamed("ternary"), 16, 32, &random));
  const absl::Status refused = backend->CheckSupport(*ternary, signature);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(refused.message().find("A16, A32"), std::string::npos) << refused;
}

TEST(CpuBackendTest, NegativeOptionIsInvalid) {
  CpuOptions options;
  options.threads = -1;
  EXPECT_EQ(CreateCpuBackend(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CpuBackendTest, DescribesTheForcedInstructionSet) {
  CpuOptions options;
  options.isa = CpuIsa::kScalar;
  options.threads = 3;
  const BackendDescription description = MakeBackend(options)->describe();
  EXPECT_EQ(description.detail, "scalar");
  EXPECT_EQ(description.parallelism, 3);
}

TEST(CpuBackendTest, BoundsLaunchesByItsThreads) {
  const BackendLimits one = WithThreads(1)->limits();
  const BackendLimits three = WithThreads(3)->limits();
  EXPECT_GT(one.launch_multiply_adds, one.chunk_multiply_adds);
  EXPECT_EQ(three.launch_multiply_adds, 3 * one.launch_multiply_adds);
}

TEST(CpuBackendTest, ChunksHaveRowsEnoughForScaledWeightsOnAmx) {
  const auto backend = WithThreads(2);
  const bool has_amx = backend->describe().detail == Name(CpuIsa::kAmx);
  EXPECT_EQ(backend->limits().least_chunk_rows, has_amx ? kScaledRows : 1);
}

TEST(CpuBackendTest, ProgressGrowsWithTheTilesOfABatch) {
  RandomGenerator random(FreshSeed());
  const auto backend = WithThreads(2);
  // Ten tiles of 16 rows of W, each of 32 KiB.
  const auto weights =
      LoadWhole(backend.get(),
                RandomWeights(WeightsRecipeNamed("kbit4"), 160, 4096, &random));
  const MatmulSignature signature;
  const std::vector<uint8_t> a =
      RandomMatrix(signature.a_type, 1, 4096, &random);
  const uint64_t before = backend->progress();
  RunRequest(backend.get(), weights, signature, 1, a);
  EXPECT_GE(backend->progress(), before + 10);
}

// The thread that ends a batch of one row of an n x n layer.
std::thread::id EndingThread(Backend* backend, int64_t n, ExecutionHint hint) {
  RandomGenerator random(FreshSeed());
  GemmBatch batch;
  batch.weights = LoadWhole(
      backend, RandomWeights(WeightsRecipeNamed("kbit4"), n, n, &random));
  batch.hint = hint;
  const StagingLease rows = *backend->AcquireStaging(2 * n * 4);
  std::fill_n(rows.data(), rows.size_bytes(), uint8_t{0});
  batch.segments = {{1, rows.data(), rows.data() + n * 4}};
  std::promise<std::thread::id> ended;
  CHECK_OK(backend->Enqueue(
      std::move(batch),
      [&](const absl::Status&, const BatchTimings&, GemmBatch) {
        ended.set_value(std::this_thread::get_id());
      }));
  return ended.get_future().get();
}

TEST(CpuBackendTest, SmallBatchesMayRunInline) {
  const auto backend = WithThreads(2);
  const std::thread::id here = std::this_thread::get_id();
  constexpr auto kInline = ExecutionHint::kMayRunInline;
  EXPECT_EQ(EndingThread(backend.get(), 128, kInline), here);
  EXPECT_NE(EndingThread(backend.get(), 128, ExecutionHint::kAsync), here);
  EXPECT_NE(EndingThread(backend.get(), 1024, kInline), here);
  EXPECT_EQ(EndingThread(backend.get(), 128, ExecutionHint::kMayCompute), here);
  EXPECT_EQ(EndingThread(backend.get(), 128, kInline), here);
}

TEST(CpuBackendFaultTest, AHungBackendCanBeGivenUpAndDestroyed) {
  RandomGenerator random(FreshSeed());
  std::unique_ptr<Backend> backend = WithThreads(2);
  auto weights =
      LoadWhole(backend.get(),
                RandomWeights(WeightsRecipeNamed("kbit4"), 16, 64, &random));
  auto a = std::make_shared<StagingLease>(*backend->AcquireStaging(1 << 16));
  auto c = std::make_shared<StagingLease>(*backend->AcquireStaging(1 << 16));
  std::atomic<bool> completed{false};
  const auto enqueue = [&] {
    return backend->Enqueue(
        {weights, {}, {{1, a->data(), c->data()}}},
        [&completed, a, c](const absl::Status&, const BatchTimings&,
                           GemmBatch) { completed = true; });
  };
  ASSERT_EQ(backend->InjectFault(BackendFault::kHang), absl::OkStatus());
  const uint64_t progress = backend->progress();
  ASSERT_EQ(enqueue(), absl::OkStatus());
  EXPECT_EQ(backend->failure(), absl::OkStatus());
  EXPECT_EQ(backend->progress(), progress);

  backend->GiveUp(absl::UnavailableError("a launch hangs"));

  EXPECT_TRUE(absl::IsUnavailable(backend->failure()));
  EXPECT_EQ(enqueue(), backend->failure());
  EXPECT_EQ(backend->NewBuilder().status(), backend->failure());
  EXPECT_FALSE(completed);
  weights.reset();
  a.reset();
  c.reset();
  backend.reset();
  EXPECT_TRUE(completed);
}

// x + x of 3 columns.
std::shared_ptr<const CheckedProgram> Doubling() {
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 3);
  absl::StatusOr<CheckedProgram> program =
      CheckProgram(draft.Finish({draft.Add(x, x)}), {});
  CHECK_OK(program.status());
  return std::make_shared<const CheckedProgram>(*std::move(program));
}

TEST(CpuBackendFaultTest, ProgramsHangAndFailAsOtherBatches) {
  std::unique_ptr<Backend> backend = WithThreads(2);
  auto lease = std::make_shared<StagingLease>(*backend->AcquireStaging(256));
  auto program = *backend->programs()->Compile(Doubling(), {});
  std::atomic<bool> completed{false};
  const auto enqueue = [&] {
    uint8_t* const memory = lease->data();
    return backend->programs()->EnqueueProgram(
        {program, {{1, 0, 1, memory, memory + 128}}},
        [&completed, lease](const absl::Status&, const BatchTimings&,
                            ProgramBatch) { completed = true; });
  };
  ASSERT_EQ(backend->InjectFault(BackendFault::kHang), absl::OkStatus());
  const uint64_t progress = backend->progress();
  ASSERT_EQ(enqueue(), absl::OkStatus());
  EXPECT_EQ(backend->progress(), progress);

  backend->GiveUp(absl::UnavailableError("a launch hangs"));

  EXPECT_EQ(enqueue(), backend->failure());
  EXPECT_EQ(backend->programs()->Compile(Doubling(), {}).status(),
            backend->failure());
  EXPECT_FALSE(completed);
  program.reset();
  lease.reset();
  backend.reset();
  EXPECT_TRUE(completed);
}

TEST(CpuBackendFaultTest, ALostDeviceIsAFailure) {
  const std::unique_ptr<Backend> backend = WithThreads(1);
  ASSERT_EQ(backend->InjectFault(BackendFault::kLoseDevice), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(backend->failure()));
}

}  // namespace
}  // namespace qgemm::cpu
