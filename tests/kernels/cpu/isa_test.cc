// SPDX-License-Identifier: Apache-2.0
//
// Names of instruction sets, and what detection promises.

#include "kernels/cpu/isa.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace qgemm::cpu {
namespace {

TEST(IsaTest, PortableSetIsAlwaysSupportedAndWorst) {
  EXPECT_EQ(SupportedCpuIsas().front(), CpuIsa::kScalar);
}

TEST(IsaTest, SupportedSetsRise) {
  const std::vector<CpuIsa> isas = SupportedCpuIsas();
  EXPECT_TRUE(std::is_sorted(isas.begin(), isas.end()));
}

TEST(IsaTest, NamesParseBack) {
  for (CpuIsa isa : kCpuIsas) {
    EXPECT_EQ(ParseCpuIsa(Name(isa)), isa) << Name(isa);
  }
}

TEST(IsaTest, UnknownNameIsNone) {
  EXPECT_EQ(ParseCpuIsa("sse9"), std::nullopt);
}

}  // namespace
}  // namespace qgemm::cpu
