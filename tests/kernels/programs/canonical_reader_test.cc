// SPDX-License-Identifier: Apache-2.0
//
// Canonical texts read back: the program that wrote one writes it again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/programs/canonical_text.h"
#include "kernels/programs/checked_program.h"
#include "tests/support/program_layers.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr LayerShape kShape = {24, 16, 8, 4, 40};

// The weights of a worked program under their ids, as texts have them.
ProgramWeightsMap WeightsById(const WorkedProgram& worked) {
  ProgramWeightsMap by_id;
  for (const auto& [name, weights] : ShapesOf(worked)) {
    by_id[weights.id] = weights;
  }
  return by_id;
}

TEST(ReadCanonicalTextTest, AProgramThatWasReadHasTheText) {
  const LayerTypes types = {NumberType::kFloat16, NumberType::kFloat32};
  for (const WorkedProgram& worked : WorkedPrograms(kShape, types)) {
    SCOPED_TRACE(worked.name);
    const auto checked = CheckProgram(worked.program, ShapesOf(worked));
    ASSERT_TRUE(checked.ok()) << checked.status();
    const std::string text = CanonicalText(*checked);
    auto reading = ReadCanonicalText(text);
    ASSERT_TRUE(reading.ok()) << reading.status();
    const auto& constants = worked.program.constants;
    ASSERT_EQ(reading->constants.size(), constants.size());
    for (size_t i = 0; i < constants.size(); ++i) {
      EXPECT_EQ(reading->constants[i].width, constants[i].width());
      EXPECT_EQ(reading->constants[i].sha256.size(), 64u);
      reading->program.constants[i].bytes = constants[i].bytes;
    }
    const auto again = CheckProgram(reading->program, WeightsById(worked));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(CanonicalText(*again), text);
  }
}

TEST(ReadCanonicalTextTest, RefusesLinesThatItDoesNotKnow) {
  EXPECT_THAT(
      std::string(ReadCanonicalText("qgemm-program-v2\n").status().message()),
      HasSubstr("qgemm-program-v1"));
  const char* const lines[] = {"",
                               "revision=",
                               "revision=-1",
                               "input fp32",
                               "input fp64 8",
                               "input fp32 8 8",
                               "input fp32 99999999999999999999",
                               "constant fp32 8",
                               "constant int32 8 00",
                               "route fp32 x=0",
                               "gemm",
                               "gemm fp32 x",
                               "gemm fp32 x=",
                               "gemm fp32 x=-1",
                               "gemm fp32 x=0 weights=w mode=A4",
                               "gemm fp32 x=0 weights=w mode=A16 rounding=fp32",
                               "act fp32 x=0 activation=mish",
                               "clamp fp32 x=0 low=1 high=2",
                               "clamp fp32 x=0 low=0000000g high=00000000",
                               "add fp32 x=0 z=1",
                               "add  fp32 x=0 y=1",
                               "output",
                               "output x",
                               "output 1 2"};
  for (const char* const line : lines) {
    const absl::Status status =
        ReadCanonicalText(
            absl::StrCat("qgemm-program-v1\nrevision=1\n", line, "\n"))
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(status.message()), HasSubstr("line 3")) << line;
  }
}

}  // namespace
}  // namespace qgemm
