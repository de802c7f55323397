// SPDX-License-Identifier: Apache-2.0
//
// A program beside its products, on backends that run programs.

#include "bench/program_bench.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/backends/backends.h"

namespace qgemm {
namespace {

BenchProgram SmallProgram() {
  ProgramSource source;
  source.name = "small";
  source.text = R"(
      revision: 1
      value_type: NUMBER_TYPE_BF16
      inputs { width: 64 }
      inputs { type: NUMBER_TYPE_FP32 width: 64 }
      ops { gemm { x: 0 weights: "up" } }
      ops { act { x: 2 kind: KIND_SILU } }
      ops { gemm { x: 3 weights: "down" } }
      ops { type: NUMBER_TYPE_FP32 add { x: 1 y: 4 } }
      outputs: 5)";
  source.weights = "up=64x96,down=96x64";
  source.format = "kbit4";
  auto program = ParseBenchProgram(source);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.value_or(BenchProgram());
}

RotationOptions Brief(int64_t total_bytes) {
  RotationOptions options;
  options.total_bytes = total_bytes;
  options.samples = 3;
  options.warm_ups = 1;
  options.sample_time = absl::ZeroDuration();
  return options;
}

std::unique_ptr<Backend> BackendOf(BackendKind kind) {
  BackendOptions options;
  options.kind = kind;
  auto backend = CreateBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

class ProgramBenchOf : public testing::TestWithParam<BackendKind> {};

TEST_P(ProgramBenchOf, TimesTheProgramAndEachProduct) {
  const auto backend = BackendOf(GetParam());
  const auto bench =
      ProgramBench::Create(backend.get(), SmallProgram(), Brief(1));
  ASSERT_TRUE(bench.ok()) << bench.status();
  for (const int64_t m : {1, 17}) {
    const auto times = (*bench)->Run(m);
    ASSERT_TRUE(times.ok()) << times.status();
    EXPECT_EQ(times->m, m);
    EXPECT_EQ(times->launches, 3);
    EXPECT_GT(times->program.median, absl::ZeroDuration());
    ASSERT_EQ(times->products.size(), 2);
    EXPECT_EQ(times->products[0].op, 0);
    EXPECT_EQ(times->products[1].op, 2);
    EXPECT_EQ(times->products[1].weights.shape.k, 96);
    EXPECT_GE(times->all_products.median, times->products[0].times.fastest +
                                              times->products[1].times.fastest);
    EXPECT_LE(times->all_products.median, times->products[0].times.slowest +
                                              times->products[1].times.slowest);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ProgramBenchOf,
                         testing::Values(BackendKind::kCpu,
                                         BackendKind::kReference));

TEST(ProgramBenchTest, CopiesOfTheWeightsReachTheBytesAskedFor) {
  const auto reference = BackendOf(BackendKind::kReference);
  const auto one =
      ProgramBench::Create(reference.get(), SmallProgram(), Brief(1));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ((*one)->copies(), 1);
  const int64_t bytes = (*one)->weights_bytes();
  EXPECT_EQ(bytes, reference->memory().weights_bytes);
  const auto several = ProgramBench::Create(reference.get(), SmallProgram(),
                                            Brief(3 * bytes + 1));
  ASSERT_TRUE(several.ok()) << several.status();
  EXPECT_EQ((*several)->copies(), 4);
}

TEST(ProgramBenchTest, MoreRowsThanTheBackendTakesAreAnError) {
  const auto reference = BackendOf(BackendKind::kReference);
  const auto bench =
      ProgramBench::Create(reference.get(), SmallProgram(), Brief(1));
  ASSERT_TRUE(bench.ok()) << bench.status();
  EXPECT_FALSE((*bench)->Run(reference->limits().max_batch_rows + 1).ok());
}

}  // namespace
}  // namespace qgemm
