// SPDX-License-Identifier: Apache-2.0
//
// Random operands: every format decodes to the asked shape, seeds decide.

#include "loadtest/workload/random_operands.h"

#include <random>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/formats/weights_spec.h"

namespace qgemm {
namespace {

class EveryFormat : public testing::TestWithParam<std::string> {};

TEST_P(EveryFormat, DecodesToTheAskedShape) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  const auto encoded = MakeRandomWeights(GetParam(), {96, 5}, seed);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  const auto canonical = DecodeWeights(*encoded);
  ASSERT_TRUE(canonical.ok()) << canonical.status();
  EXPECT_EQ(canonical->header().k, 96);
  EXPECT_EQ(canonical->header().n, 5);
}

TEST_P(EveryFormat, FillsTheSectionsOfItsSpec) {
  const auto encoded = MakeRandomWeights(GetParam(), {64, 3}, 1);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_TRUE(Validate(encoded->spec, WeightsLimits()).ok());
  int64_t bytes = 0;
  for (const auto& section : encoded->sections) bytes += section.bytes.size();
  EXPECT_EQ(bytes, TotalBytes(encoded->spec));
}

INSTANTIATE_TEST_SUITE_P(MakeRandomWeights, EveryFormat,
                         testing::Values("kbit2", "kbit3", "kbit4", "kbit5",
                                         "q4_0", "ternary", "int4",
                                         "int4-asymmetric", "fp16", "bf16"));

TEST(MakeRandomWeights, RefusesAnUnknownFormat) {
  for (const char* format : {"kbit1", "kbit6", "kbit44", "fp8", ""}) {
    EXPECT_EQ(MakeRandomWeights(format, {32, 1}, 1).status().code(),
              absl::StatusCode::kInvalidArgument)
        << format;
  }
}

TEST(MakeRandomWeights, RefusesAShapeThatTheFormatDoesNotAllow) {
  EXPECT_EQ(MakeRandomWeights("kbit4", {33, 1}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MakeRandomWeights, TheSeedDecidesTheBytes) {
  const auto first = MakeRandomWeights("q4_0", {64, 4}, 7);
  const auto again = MakeRandomWeights("q4_0", {64, 4}, 7);
  const auto other = MakeRandomWeights("q4_0", {64, 4}, 8);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(first->sections[0].bytes, again->sections[0].bytes);
  EXPECT_NE(first->sections[0].bytes, other->sections[0].bytes);
}

TEST(MakeRandomActivations, HoldsTheAskedElements) {
  EXPECT_EQ(MakeRandomActivations(FloatType::kFloat32, 10, 1).size(), 40u);
  EXPECT_EQ(MakeRandomActivations(FloatType::kBFloat16, 10, 1).size(), 20u);
  EXPECT_NE(MakeRandomActivations(FloatType::kFloat16, 10, 1),
            MakeRandomActivations(FloatType::kFloat16, 10, 2));
}

}  // namespace
}  // namespace qgemm
