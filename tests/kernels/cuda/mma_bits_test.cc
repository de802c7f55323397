// SPDX-License-Identifier: Apache-2.0
//
// mma.sync and wgmma give the same bits: a kernel may multiply few rows of A by
// one and many by the other, and a row's bits still do not depend on M.

#include "tests/kernels/cuda/mma_bits.h"

#include <cuda_runtime_api.h>

#include <ostream>
#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {

void PrintTo(MmaOperands operands, std::ostream* out) {
  constexpr const char* kNames[] = {"Uniform", "WideExponents", "Cancellation",
                                    "Subnormal", "Special"};
  *out << kNames[static_cast<int>(operands)];
}

namespace {

using Case = std::tuple<MmaOperands, bool, int>;  // bf16, steps

class MmaBitsTest : public DeviceTest,
                    public ::testing::WithParamInterface<Case> {};

TEST_P(MmaBitsTest, AreThoseOfWgmma) {
  MmaComparison comparison;
  comparison.operands = std::get<0>(GetParam());
  comparison.bf16 = std::get<1>(GetParam());
  comparison.steps = std::get<2>(GetParam());
  comparison.rounds = 32;
  comparison.seed = FreshSeed();
  int major = 0;
  ASSERT_EQ(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
      cudaSuccess);
  if (major != 9) GTEST_SKIP() << "no wgmma on this GPU";
  MmaCounts found = {};
  ASSERT_EQ(CompareMmaBits(comparison, found), cudaSuccess);
  EXPECT_EQ(found.outputs, 1ull * comparison.rounds * kMmaRoundOutputs);
  EXPECT_EQ(found.differing, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Operands, MmaBitsTest,
    ::testing::Combine(::testing::Values(MmaOperands::kUniform,
                                         MmaOperands::kWideExponents,
                                         MmaOperands::kCancellation,
                                         MmaOperands::kSubnormal,
                                         MmaOperands::kSpecial),
                       ::testing::Bool(), ::testing::Values(1, 4, 64)),
    [](const ::testing::TestParamInfo<Case>& info) {
      return ::testing::PrintToString(std::get<0>(info.param)) +
             (std::get<1>(info.param) ? "Bf16" : "Fp16") + "Steps" +
             std::to_string(std::get<2>(info.param));
    });

}  // namespace
}  // namespace qgemm::cuda
