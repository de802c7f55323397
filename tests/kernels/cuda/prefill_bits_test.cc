// SPDX-License-Identifier: Apache-2.0
//
// The prefill kernel gives the same bits again and again, whatever else is
// multiplied with a row.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/kernels/cuda/captured_graph.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/kernels/cuda/prefill_recipes.h"
#include "tests/kernels/cuda/prefill_test.h"

namespace qgemm::cuda {
namespace {

using PrefillBitsTest = PrefillTest;

// Neither m nor the rows beside it, nor where a row stands among them, where
// tiles are whole.
TEST_P(PrefillBitsTest, ARowsBitsAreItsOwn) {
  const DevicePrefill gemm = Gemm({333, 2200});
  const FloatType type = FloatType::kFloat32;
  const int64_t row_bytes = gemm.layout().n * SizeOf(type);
  for (const PrefillTiling& tiling : Tilings(gemm.layout())) {
    if (tiling.splits) continue;
    const std::vector<uint8_t> all =
        gemm.Multiply(gemm.Operands(DevicePrefill::kMaxM, type), tiling);
    for (const int64_t m : kPrefillTestRows) {
      for (const int64_t row : {int64_t{0}, int64_t{37}, int64_t{200}}) {
        if (row + m > DevicePrefill::kMaxM) continue;
        const std::vector<uint8_t> some =
            gemm.Multiply(gemm.OperandsFrom(row, m, type), tiling);
        EXPECT_TRUE(
            std::equal(some.begin(), some.end(), all.begin() + row * row_bytes))
            << m << " rows from " << row << ", " << tiling;
      }
    }
  }
}

// Split tiles too, whose sums blocks hand over in one memory.
TEST_P(PrefillBitsTest, GivesTheSameBitsTwoHundredTimes) {
  constexpr int kRepeats = 200;
  constexpr int kChunk = 50;  // results kept at one time
  const DevicePrefill gemm = Gemm({1003, 1500});
  GemmOperands operands = gemm.Operands(300, FloatType::kFloat16);
  const int64_t bytes = gemm.ResultBytes(operands);
  const DeviceBuffer results = Allocate(kChunk * bytes);
  std::vector<uint8_t> c(results.size_bytes());
  for (const PrefillTiling& tiling : Tilings(gemm.layout())) {
    const std::vector<uint8_t> first = gemm.Multiply(operands, tiling);
    for (int repeat = 0; repeat < kRepeats; repeat += kChunk) {
      // One after another, without a pause between them.
      for (int i = 0; i < kChunk; ++i) {
        operands.c = results.data() + i * bytes;
        ASSERT_EQ(LaunchPrefillGemm(device_, operands, nullptr, tiling),
                  cudaSuccess);
      }
      ASSERT_EQ(cudaMemcpy(c.data(), results.data(), c.size(),
                           cudaMemcpyDeviceToHost),
                cudaSuccess);
      for (int i = 0; i < kChunk; ++i) {
        ASSERT_TRUE(
            std::equal(first.begin(), first.end(), c.begin() + i * bytes))
            << "repeat " << repeat + i << ", " << tiling;
      }
    }
  }
}

// The global mode refuses whatever allocates or waits.
TEST_P(PrefillBitsTest, AGraphReplaysTheSameBits) {
  const DevicePrefill gemm = Gemm({333, 1000});
  auto stream = Stream::Create();
  ASSERT_TRUE(stream.ok()) << stream.status();
  for (const PrefillTiling& tiling : Tilings(gemm.layout())) {
    GemmOperands operands = gemm.Operands(300, FloatType::kBFloat16);
    const std::vector<uint8_t> expected = gemm.Multiply(operands, tiling);
    const DeviceBuffer result = Allocate(gemm.ResultBytes(operands));
    operands.c = result.data();
    ASSERT_EQ(
        cudaStreamBeginCapture(stream->get(), cudaStreamCaptureModeGlobal),
        cudaSuccess);
    EXPECT_EQ(LaunchPrefillGemm(device_, operands, stream->get(), tiling),
              cudaSuccess);
    const CapturedGraph graph(stream->get());
    ASSERT_FALSE(HasFailure());
    std::vector<uint8_t> c(expected.size());
    for (int replay = 0; replay < 3; ++replay) {
      ASSERT_EQ(cudaMemsetAsync(result.data(), 0xff, result.size_bytes(),
                                stream->get()),
                cudaSuccess);
      ASSERT_EQ(graph.Launch(stream->get()), cudaSuccess);
      ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
      ASSERT_EQ(
          cudaMemcpy(c.data(), result.data(), c.size(), cudaMemcpyDeviceToHost),
          cudaSuccess);
      EXPECT_TRUE(c == expected) << tiling << ", replay " << replay;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, PrefillBitsTest,
                         testing::ValuesIn(PrefillRecipes()), NameOfRecipe);

}  // namespace
}  // namespace qgemm::cuda
