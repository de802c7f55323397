// SPDX-License-Identifier: Apache-2.0
//
// Sweeps hold what they promise, and flags narrow them.

#include "bench/sweep.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

bool Has(const std::vector<BenchCase>& cases, const std::string& format,
         const BenchShape& shape, int64_t m) {
  return std::any_of(cases.begin(), cases.end(), [&](const BenchCase& one) {
    return one.format == format && one.shape.k == shape.k &&
           one.shape.n == shape.n && one.m == m;
  });
}

std::vector<BenchCase> Cases(const SweepText& text, SweepSize size,
                             SweepTarget target) {
  const auto cases = CasesOf(text, size, target);
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.ok() ? *cases : std::vector<BenchCase>();
}

TEST(SweepTest, HostDefaultsHaveTheLayerThatTheTargetNames) {
  EXPECT_TRUE(Has(Cases({}, SweepSize::kDefault, SweepTarget::kHost), "kbit4",
                  {4096, 14336}, 1));
}

TEST(SweepTest, GpuDefaultsHaveEveryShapeAndRowCountOfKbit4) {
  const auto all = Cases({}, SweepSize::kFull, SweepTarget::kGpu);
  const auto some = Cases({}, SweepSize::kDefault, SweepTarget::kGpu);
  std::set<std::pair<int64_t, int64_t>> shapes;
  std::set<int64_t> rows;
  for (const BenchCase& one : all) {
    shapes.insert({one.shape.k, one.shape.n});
    rows.insert(one.m);
  }
  EXPECT_EQ(shapes.size(), 16u);
  EXPECT_EQ(rows.size(), 13u);
  for (const auto& [k, n] : shapes) {
    for (int64_t m : rows) {
      EXPECT_TRUE(Has(some, "kbit4", {k, n}, m)) << k << "x" << n << " " << m;
    }
  }
}

TEST(SweepTest, GpuQuickHasTheOtherFormatsOnTheLargestLayer) {
  const auto cases = Cases({}, SweepSize::kQuick, SweepTarget::kGpu);
  for (const char* format :
       {"kbit2", "kbit3", "kbit5", "q4_0", "int4", "ternary", "dense"}) {
    for (int64_t m : {1, 16}) {
      EXPECT_TRUE(Has(cases, format, {8192, 28672}, m)) << format << " " << m;
    }
  }
  EXPECT_TRUE(Has(cases, "kbit4", {1024, 4096}, 64));
}

TEST(SweepTest, FlagsReplaceWhatTheSweepHas) {
  const auto cases = Cases({"64x128", "3", "kbit2", "bf16"},
                           SweepSize::kDefault, SweepTarget::kGpu);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].shape.n, 128);
  EXPECT_EQ(cases[0].m, 3);
  EXPECT_EQ(cases[0].format, "kbit2");
  EXPECT_EQ(cases[0].dtype, FloatType::kBFloat16);
}

TEST(SweepTest, NoCaseComesTwice) {
  for (SweepSize size :
       {SweepSize::kQuick, SweepSize::kDefault, SweepSize::kFull}) {
    const auto cases = Cases({"", "", "kbit4", ""}, size, SweepTarget::kGpu);
    std::set<std::tuple<int64_t, int64_t, int64_t, FloatType>> seen;
    for (const BenchCase& one : cases) {
      EXPECT_TRUE(
          seen.insert({one.shape.k, one.shape.n, one.m, one.dtype}).second)
          << one.shape.k << "x" << one.shape.n << " " << one.m;
    }
  }
}

TEST(SweepTest, CasesOfOneLayerAreNeighbours) {
  const auto cases = Cases({"64x128,64x256", "1,2", "kbit4,int4", "fp16,bf16"},
                           SweepSize::kFull, SweepTarget::kGpu);
  int changes = 0;
  for (size_t i = 1; i < cases.size(); ++i) {
    changes += SameLayer(cases[i - 1], cases[i]) ? 0 : 1;
  }
  EXPECT_EQ(changes, 3);  // four layers
}

TEST(SweepTest, AWrongFlagIsInvalid) {
  EXPECT_EQ(CasesOf({"", "0", "", ""}, SweepSize::kQuick, SweepTarget::kHost)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm
