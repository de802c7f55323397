// SPDX-License-Identifier: Apache-2.0
//
// Values of the interface: 16-bit elements, typed spans, results.

#include "qgemm/gemm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "qgemm/program.h"

namespace qgemm {
namespace {

TEST(Half, RoundsToNearestEvenAndWidensExactly) {
  EXPECT_EQ(Half(1.0f).bits, 0x3c00);
  EXPECT_EQ(Half(1.0f + 0x1p-11f).bits, 0x3c00);
  EXPECT_EQ(Half(1.0f + 0x3p-11f).bits, 0x3c02);
  EXPECT_EQ(static_cast<float>(Half(-2.5f)), -2.5f);
  EXPECT_EQ(Half(1e6f).bits, 0x7c00);
}

TEST(BFloat16, RoundsToNearestEvenAndWidensExactly) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0f + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0f + 0x3p-8f).bits, 0x3f82);
  EXPECT_EQ(static_cast<float>(BFloat16(-2.5f)), -2.5f);
}

TEST(GemmRequest, TypedMemoryForCSetsTheResultsType) {
  std::vector<BFloat16> c(6);
  GemmRequest request;
  request.SetC(absl::MakeSpan(c));
  EXPECT_EQ(request.c.size(), 12u);
  EXPECT_EQ(request.result_type(), FloatType::kBFloat16);
}

TEST(GemmRequest, TheResultHasTheTypeOfAUnlessOneIsSet) {
  GemmRequest request;
  const std::vector<float> a(4);
  request.SetA(a);
  EXPECT_EQ(request.result_type(), FloatType::kFloat32);
  request.c_type = FloatType::kFloat16;
  EXPECT_EQ(request.result_type(), FloatType::kFloat16);
}

TEST(GemmResult, ToFloatsReadsTheRequestsMemoryToo) {
  const std::vector<Half> c = {Half(1.0f), Half(-0.5f)};
  GemmResult result;
  result.c_type = FloatType::kFloat16;
  result.placed_c = absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(c.data()), 2 * c.size());
  EXPECT_EQ(result.ToFloats(), (std::vector<float>{1.0f, -0.5f}));
}

TEST(ParsePriority, ReadsNamesAndNothingElse) {
  EXPECT_EQ(ParsePriority("low"), RequestPriority::kLow);
  EXPECT_EQ(ParsePriority("high"), RequestPriority::kHigh);
  EXPECT_FALSE(ParsePriority("High").has_value());
}

TEST(RunResultTest, OutputsAreFoundByTheProgramsDescription) {
  ProgramInfo program;
  program.outputs = {{"a", NumberType::kBFloat16, 2},
                     {"ids", NumberType::kInt32, 1}};
  RunResult result;
  result.m = 2;
  result.outputs = "aaaaAAAAiiiiIIII";
  const auto ids = result.Output(program, 1);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(std::string(ids->begin(), ids->end()), "iiiiIIII");
  EXPECT_EQ(result.Output(program, 0)->size(), 8u);
  EXPECT_FALSE(result.Output(program, 2).ok());
  EXPECT_FALSE(result.Output(program, -1).ok());
  program.outputs[1].width = 2;
  EXPECT_FALSE(result.Output(program, 0).ok());
  program.outputs[1].width = int64_t{1} << 62;
  EXPECT_FALSE(result.Output(program, 0).ok());
  program.outputs.pop_back();
  EXPECT_FALSE(result.Output(program, 0).ok());
}

}  // namespace
}  // namespace qgemm
