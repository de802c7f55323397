// SPDX-License-Identifier: Apache-2.0
//
// Backends by name.

#include "kernels/backends/backends.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

TEST(BackendsTest, MakesEachThatItNames) {
  ASSERT_FALSE(BackendNames().empty());
  for (const std::string& name : BackendNames()) {
    const auto backend = CreateBackend({name, 1});
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->describe().name, name);
  }
}

TEST(BackendsTest, AutoIsTheFirst) {
  const auto backend = CreateBackend({"auto", 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->describe().name, BackendNames().front());
}

TEST(BackendsTest, HandsThreadsOnToTheProcessor) {
  const auto backend = CreateBackend({"cpu", 3});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->describe().parallelism, 3);
}

TEST(BackendsTest, SaysWhatThisBuildHasInsteadOfCuda) {
  const absl::Status status = CreateBackend({"cuda", 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("it has: cpu, reference"));
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
