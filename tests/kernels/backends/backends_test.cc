// SPDX-License-Identifier: Apache-2.0
//
// Backends by name.

#include "kernels/backends/backends.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

TEST(BackendsTest, MakesEachThatItNamesAndThisHostRuns) {
  ASSERT_FALSE(BackendNames().empty());
  for (const std::string& name : BackendNames()) {
    const auto backend = CreateBackend({name, 1});
    if (name == "cuda" && absl::IsFailedPrecondition(backend.status())) {
      continue;
    }
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->describe().name, name);
  }
}

TEST(BackendsTest, AutoIsTheFirstThatThisHostRuns) {
  const auto backend = CreateBackend({"auto", 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const bool has_gpu = CreateBackend({"cuda", 1}).ok();
  EXPECT_EQ((*backend)->describe().name, has_gpu ? "cuda" : "cpu");
}

TEST(BackendsTest, HandsThreadsOnToTheProcessor) {
  const auto backend = CreateBackend({"cpu", 3});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->describe().parallelism, 3);
}

TEST(BackendsTest, SaysWhatStandsInForCuda) {
  const absl::Status status = CreateBackend({"cuda", 0}).status();
  if (status.ok()) GTEST_SKIP() << "this host has a GPU";
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const bool in_build = BackendNames().front() == "cuda";
  EXPECT_THAT(status.message(),
              HasSubstr(in_build ? "CUDA device" : "it has: cpu, reference"));
}

TEST(BackendsTest, RefusesANameThatIsNone) {
  const absl::Status status = CreateBackend({"tpu", 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("\"tpu\""));
}

TEST(BackendsTest, RefusesNegativeThreads) {
  EXPECT_EQ(CreateBackend({"reference", -1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm
