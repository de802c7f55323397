// SPDX-License-Identifier: Apache-2.0
//
// ParseLoadtestOptions: what each flag becomes and what is refused.

#include "client/loadtest/options.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

LoadtestFlags ValidFlags() {
  LoadtestFlags flags;
  flags.server = "unix:/run/qgemm.sock";
  flags.synthetic = "4096x14336";
  return flags;
}

TEST(ParseLoadtestOptions, ReadsTheSyntheticShapeAsKxN) {
  const auto options = ParseLoadtestOptions(ValidFlags());
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->is_synthetic());
  EXPECT_EQ(options->synthetic.k, 4096);
  EXPECT_EQ(options->synthetic.n, 14336);
}

TEST(ParseLoadtestOptions, ResultTypeFollowsTheActivations) {
  LoadtestFlags flags = ValidFlags();
  flags.dtype = "bf16";
  const auto options = ParseLoadtestOptions(flags);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->c_type, FloatType::kBFloat16);
}

TEST(ParseLoadtestOptions, ResultTypeCanBeItsOwn) {
  LoadtestFlags flags = ValidFlags();
  flags.out_dtype = "fp32";
  const auto options = ParseLoadtestOptions(flags);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->a_type, FloatType::kFloat16);
  EXPECT_EQ(options->c_type, FloatType::kFloat32);
}

TEST(ParseLoadtestOptions, ModeIgnoresCase) {
  LoadtestFlags flags = ValidFlags();
  flags.mode = "a8";
  const auto options = ParseLoadtestOptions(flags);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->mode, ComputeMode::kA8);
}

struct BadFlagCase {
  std::string named;  // what the message must name
  std::function<void(LoadtestFlags*)> spoil;
};

class BadFlags : public testing::TestWithParam<BadFlagCase> {};

TEST_P(BadFlags, AreRefusedByName) {
  LoadtestFlags flags = ValidFlags();
  GetParam().spoil(&flags);
  const auto options = ParseLoadtestOptions(flags);
  ASSERT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(options.status().message()),
              testing::HasSubstr(GetParam().named));
}

INSTANTIATE_TEST_SUITE_P(
    ParseLoadtestOptions, BadFlags,
    testing::Values(
        BadFlagCase{"--server", [](auto* f) { f->server.clear(); }},
        BadFlagCase{"--weights", [](auto* f) { f->weights = "layer"; }},
        BadFlagCase{"--weights", [](auto* f) { f->synthetic.clear(); }},
        BadFlagCase{"--synthetic=64", [](auto* f) { f->synthetic = "64"; }},
        BadFlagCase{"--synthetic=0x5", [](auto* f) { f->synthetic = "0x5"; }},
        BadFlagCase{"--synthetic=1x2x3",
                    [](auto* f) { f->synthetic = "1x2x3"; }},
        BadFlagCase{"--synthetic=1048577x1",
                    [](auto* f) { f->synthetic = "1048577x1"; }},
        BadFlagCase{"--dtype=int8", [](auto* f) { f->dtype = "int8"; }},
        BadFlagCase{"--out_dtype=q", [](auto* f) { f->out_dtype = "q"; }},
        BadFlagCase{"--mode=A4", [](auto* f) { f->mode = "A4"; }},
        BadFlagCase{"--verify=some", [](auto* f) { f->verify = "some"; }},
        BadFlagCase{"--m=0", [](auto* f) { f->m = 0; }},
        BadFlagCase{"--concurrency=0", [](auto* f) { f->concurrency = 0; }},
        BadFlagCase{"--connections=0", [](auto* f) { f->connections = 0; }},
        BadFlagCase{"--inputs=-1", [](auto* f) { f->inputs = -1; }},
        BadFlagCase{"--duration=0",
                    [](auto* f) { f->duration = absl::ZeroDuration(); }},
        BadFlagCase{"--warmup=-1s",
                    [](auto* f) { f->warmup = -absl::Seconds(1); }},
        BadFlagCase{"--timeout=inf",
                    [](auto* f) { f->timeout = absl::InfiniteDuration(); }}));

}  // namespace
}  // namespace qgemm
