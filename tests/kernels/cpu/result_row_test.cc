// SPDX-License-Identifier: Apache-2.0
//
// Results are scaled, biased and rounded once.

#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/microkernel_table.h"
#include "kernels/cpu/row_conversion.h"

namespace qgemm::cpu {
namespace {

class ResultRowTest : public testing::TestWithParam<CpuIsa> {
 protected:
  // The results of `sums` as floats.
  std::vector<float> Results(FloatType type, double factor,
                             const std::vector<float>& bias,
                             const std::vector<float>& sums) {
    std::vector<uint8_t> bytes(sums.size() * SizeOf(type));
    StoreResults({type, TableOf(GetParam()).half_conversions, factor, bias},
                 sums, bytes.data());
    std::vector<float> results;
    for (size_t i = 0; i < sums.size(); ++i) {
      results.push_back(LoadFloat(type, bytes.data() + i * SizeOf(type)));
    }
    return results;
  }
};

TEST_P(ResultRowTest, BiasIsAddedAfterTheFactor) {
  EXPECT_EQ(Results(FloatType::kFloat32, 4, {1, 2}, {3, 5}),
            (std::vector<float>{13, 22}));
}

TEST_P(ResultRowTest, FactorMayExceedSinglePrecision) {
  EXPECT_EQ(Results(FloatType::kFloat32, 0x1p200, {}, {0x1p-140f}),
            (std::vector<float>{0x1p60f}));
}

TEST_P(ResultRowTest, HalfRoundsToNearestEven) {
  EXPECT_EQ(Results(FloatType::kFloat16, 1, {}, {1 + 0x1p-11f, 1 + 0x3p-11f}),
            (std::vector<float>{1, 1 + 0x1p-9f}));
}

TEST_P(ResultRowTest, BFloat16RoundsToNearestEven) {
  EXPECT_EQ(Results(FloatType::kBFloat16, 1, {}, {1 + 0x1p-8f, 1 + 0x3p-8f}),
            (std::vector<float>{1, 1 + 0x1p-6f}));
}

INSTANTIATE_TEST_SUITE_P(Isas, ResultRowTest,
                         testing::ValuesIn(SupportedCpuIsas()),
                         [](const testing::TestParamInfo<CpuIsa>& info) {
                           return std::string(Name(info.param));
                         });

}  // namespace
}  // namespace qgemm::cpu
