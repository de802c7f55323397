// SPDX-License-Identifier: Apache-2.0
//
// The cuBLASLt path against fp64, on layers of one N-chunk and of several.

#include "kernels/cuda/cublas_gemm.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/rows.h"
#include "kernels/cuda/plan/n_chunk_plan.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/matrix/fp64_oracle.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/random_matrix.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

// Columns of C that are compared: every 61st, from a random one on.
constexpr int64_t kColumnStride = 61;

struct Problem {
  int64_t m;
  int64_t n;
  int64_t k;
};

class CublasGemmTest : public DeviceTest,
                       public testing::WithParamInterface<WeightsRecipe> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto gemm = CublasGemm::Create(device_.traits);
    if (absl::IsFailedPrecondition(gemm.status())) {
      GTEST_SKIP() << gemm.status();
    }
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    gemm_ = *std::move(gemm);
    auto stream = Stream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }

  std::shared_ptr<const CudaWeights> Load(const CanonicalWeights& weights) {
    return qgemm::cuda::Load(weights, device_.traits);
  }

  // A's rows as a call wants them, padding rows poisoned.
  DeviceBuffer Prepared(const CudaWeights& weights, FloatType type,
                        const std::vector<uint8_t>& a, int64_t m) {
    const DeviceBuffer given = Allocate(static_cast<int64_t>(a.size()));
    CHECK_EQ(
        cudaMemcpy(given.data(), a.data(), a.size(), cudaMemcpyHostToDevice),
        cudaSuccess);
    PrepareRowsArgs rows;
    rows.a = given.data();
    rows.a_type = type;
    rows.m = m;
    rows.k = weights.k();
    if (!weights.shape().dense && weights.tiled().has_permutation) {
      rows.permutation = weights.tiled().permutation();
    }
    rows.out_type = OperandType(weights, type);
    rows.ldo = OperandStride(weights.k());
    DeviceBuffer prepared = Allocate(PaddedRows(m) * rows.ldo * 2);
    CHECK_EQ(cudaMemset(prepared.data(), 0xff, prepared.size_bytes()),
             cudaSuccess);
    rows.out = prepared.data();
    CHECK_EQ(LaunchPrepareRows(rows, nullptr), cudaSuccess);
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return prepared;
  }

  // C of one call, poisoned before.
  std::vector<uint8_t> Multiply(CublasGemmCall call) {
    const int64_t row_bytes = call.weights->n() * SizeOf(call.c_type);
    const DeviceBuffer c = Allocate(PaddedRows(call.m) * row_bytes);
    CHECK_EQ(cudaMemset(c.data(), 0xff, c.size_bytes()), cudaSuccess);
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    call.c = c.data();
    call.scratch = &scratch_;
    call.stream = stream_.get();
    CHECK_OK(gemm_->Enqueue(call));
    CHECK_OK(stream_.Synchronize());
    std::vector<uint8_t> result(call.m * row_bytes);
    CHECK_EQ(cudaMemcpy(result.data(), c.data(), result.size(),
                        cudaMemcpyDeviceToHost),
             cudaSuccess);
    return result;
  }

  void ExpectWithinTolerance(const Problem& problem,
                             const MatmulSignature& signature) {
    const CanonicalWeights weights =
        RandomWeights(GetParam(), problem.n, problem.k, &random_);
    CublasGemmCall call;
    call.weights = Load(weights);
    const std::vector<uint8_t> a =
        RandomMatrix(signature.a_type, problem.m, problem.k, &random_);
    const DeviceBuffer prepared =
        Prepared(*call.weights, signature.a_type, a, problem.m);
    call.a = prepared.data();
    call.operand_type = OperandType(*call.weights, signature.a_type);
    call.c_type = signature.c_type;
    call.m = problem.m;
    const std::vector<uint8_t> first = Multiply(call);
    const OracleProduct oracle =
        Fp64Matmul(weights, signature, a, problem.m,
                   {RandomInt(0, kColumnStride - 1, &random_), kColumnStride});
    EXPECT_EQ(CompareWithOracle(oracle, weights.header(), signature, first)
                  .ToStatus(),
              absl::OkStatus())
        << Name(signature.a_type) << " to " << Name(signature.c_type)
        << ", m n k = " << problem.m << " " << problem.n << " " << problem.k;
    // The second call finds scratch as the first left it.
    EXPECT_TRUE(Multiply(call) == first);
  }

  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<CublasGemm> gemm_;
  Stream stream_;
  StreamScratch scratch_;
};

constexpr MatmulSignature kSignatures[] = {
    {FloatType::kFloat16, FloatType::kFloat16},
    {FloatType::kFloat16, FloatType::kFloat32},
    {FloatType::kBFloat16, FloatType::kBFloat16},
    {FloatType::kBFloat16, FloatType::kFloat16},
};

TEST_P(CublasGemmTest, OneNChunkIsWithinTheTolerance) {
  for (const MatmulSignature& signature : kSignatures) {
    ExpectWithinTolerance({130, 77, RoundUp(300, GetParam().k_multiple)},
                          signature);
  }
}

// N-chunks of several sizes come after each other in scratch.
TEST_P(CublasGemmTest, SeveralNChunksAreWithinTheTolerance) {
  const int64_t k = 2048;
  const Problem problem = {1030, 10000, k};
  NChunkProblem n_chunks;
  n_chunks.m = PaddedRows(problem.m);
  n_chunks.n = problem.n;
  n_chunks.k = k;
  if (NChunkRows(n_chunks, device_.traits) >= problem.n) {
    GTEST_SKIP() << "this GPU takes the layer whole";
  }
  ExpectWithinTolerance(problem, {FloatType::kFloat16, FloatType::kFloat16});
}

// The side stream forks and joins, so that one graph holds the whole call.
TEST_P(CublasGemmTest, ACapturedCallGivesTheSameBits) {
  const Problem problem = {1030, 10000, 2048};
  CublasGemmCall call;
  call.weights =
      Load(RandomWeights(GetParam(), problem.n, problem.k, &random_));
  const FloatType type = FloatType::kFloat16;
  const DeviceBuffer prepared =
      Prepared(*call.weights, type,
               RandomMatrix(type, problem.m, problem.k, &random_), problem.m);
  call.a = prepared.data();
  call.operand_type = OperandType(*call.weights, type);
  call.m = problem.m;
  const std::vector<uint8_t> expected = Multiply(call);
  const DeviceBuffer c = Allocate(PaddedRows(problem.m) * problem.n * 2);
  call.c = c.data();
  call.scratch = &scratch_;
  call.stream = stream_.get();
  ASSERT_EQ(
      cudaStreamBeginCapture(call.stream, cudaStreamCaptureModeThreadLocal),
      cudaSuccess);
  EXPECT_EQ(gemm_->Enqueue(call), absl::OkStatus());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(call.stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int replay = 0; replay < 3; ++replay) {
    ASSERT_EQ(cudaMemsetAsync(c.data(), 0xff, c.size_bytes(), call.stream),
              cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(executable, call.stream), cudaSuccess);
    ASSERT_EQ(stream_.Synchronize(), absl::OkStatus());
    std::vector<uint8_t> result(expected.size());
    ASSERT_EQ(cudaMemcpy(result.data(), c.data(), result.size(),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_TRUE(result == expected) << "replay " << replay;
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

INSTANTIATE_TEST_SUITE_P(Recipes, CublasGemmTest,
                         testing::ValuesIn(AllWeightsRecipes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace qgemm::cuda
