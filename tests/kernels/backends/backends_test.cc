// SPDX-License-Identifier: Apache-2.0
//
// Backends by kind, and options that only some of them take.

#include "kernels/backends/backends.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using cuda::KernelPath;
using ::testing::AllOf;
using ::testing::HasSubstr;

BackendOptions OfKind(BackendKind kind, int threads = 1) {
  BackendOptions options;
  options.kind = kind;
  options.cpu.threads = threads;
  return options;
}

BackendOptions WithKernel(BackendKind kind, KernelPath kernel) {
  BackendOptions options = OfKind(kind);
  options.cuda.kernel = kernel;
  return options;
}

BackendOptions WithTuning(BackendKind kind, const std::string& file) {
  BackendOptions options = OfKind(kind);
  options.cuda.tuning_file = file;
  return options;
}

bool BuildHasCuda() {
  return absl::c_linear_search(BackendsInBuild(), BackendKind::kCuda);
}
bool HostRunsCuda() { return CreateBackend(OfKind(BackendKind::kCuda)).ok(); }

// Expects the error's code and words.
void ExpectRefused(const BackendOptions& options, absl::StatusCode code,
                   const ::testing::Matcher<std::string>& message) {
  const absl::Status status = CreateBackend(options).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), message);
}

TEST(BackendsTest, MakesEachThatIsInTheBuildAndThisHostRuns) {
  ASSERT_FALSE(BackendsInBuild().empty());
  for (const BackendKind kind : BackendsInBuild()) {
    const auto backend = CreateBackend(OfKind(kind));
    if (kind == BackendKind::kCuda &&
        absl::IsFailedPrecondition(backend.status())) {
      continue;
    }
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->describe().name, Name(kind));
  }
}

TEST(BackendsTest, AutoIsTheFirstThatThisHostRuns) {
  const auto backend = CreateBackend(OfKind(BackendKind::kAuto));
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->describe().name, HostRunsCuda() ? "cuda" : "cpu");
}

TEST(BackendsTest, HandsThreadsOnToTheProcessor) {
  const auto backend = CreateBackend(OfKind(BackendKind::kCpu, 3));
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->describe().parallelism, 3);
}

TEST(BackendsTest, NamesTheBackendsThatReplaceCuda) {
  if (HostRunsCuda()) GTEST_SKIP() << "this host has a GPU";
  ExpectRefused(
      OfKind(BackendKind::kCuda), absl::StatusCode::kFailedPrecondition,
      HasSubstr(BuildHasCuda() ? "CUDA device" : "it has: cpu, reference"));
}

TEST(BackendsTest, RefusesNegativeThreads) {
  ExpectRefused(OfKind(BackendKind::kReference, -1),
                absl::StatusCode::kInvalidArgument, HasSubstr("threads = -1"));
}

TEST(BackendsTest, RefusesAKernelForABackendWithoutAChoice) {
  for (const BackendKind kind : {BackendKind::kCpu, BackendKind::kReference}) {
    ExpectRefused(WithKernel(kind, KernelPath::kDecode),
                  absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("--kernel = \"decode\""),
                        HasSubstr(absl::StrCat("backend ", Name(kind)))));
    EXPECT_TRUE(CreateBackend(WithKernel(kind, KernelPath::kAuto)).ok());
  }
}

TEST(BackendsTest, RefusesATuningForABackendThatReadsNone) {
  for (const BackendKind kind : {BackendKind::kCpu, BackendKind::kReference}) {
    ExpectRefused(WithTuning(kind, "/some/file"),
                  absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("--tuning_file = \"/some/file\""),
                        HasSubstr(absl::StrCat("backend ", Name(kind)))));
  }
}

TEST(BackendsTest, AutoKeepsOptionsThatOnlyCudaTakes) {
  if (HostRunsCuda()) GTEST_SKIP() << "this host has a GPU";
  ExpectRefused(
      WithKernel(BackendKind::kAuto, KernelPath::kCublas),
      absl::StatusCode::kInvalidArgument,
      AllOf(HasSubstr("--kernel = \"cublas\": backend cpu"),
            HasSubstr(BuildHasCuda() ? "auto took it because: " : "")));
}

class TuningOptionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!BuildHasCuda()) GTEST_SKIP() << "a build without CUDA";
  }
  ~TuningOptionTest() override { std::remove(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + "/backend_tuning.json";
};

// The file's errors come first, with and without a GPU.
TEST_F(TuningOptionTest, AMissingFileIsNamed) {
  for (const BackendKind kind : {BackendKind::kAuto, BackendKind::kCuda}) {
    ExpectRefused(WithTuning(kind, path_), absl::StatusCode::kNotFound,
                  HasSubstr(path_));
  }
}

TEST_F(TuningOptionTest, AnIllegalFileIsRefused) {
  std::ofstream(path_) << R"({"version": 7})";
  for (const BackendKind kind : {BackendKind::kAuto, BackendKind::kCuda}) {
    ExpectRefused(WithTuning(kind, path_), absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr(path_), HasSubstr("version = 7")));
  }
}

TEST_F(TuningOptionTest, ATuningOfAnotherDeviceIsUsed) {
  cuda::Tuning tuning = cuda::DefaultTuning();
  tuning.device = "another";
  std::ofstream(path_) << cuda::FormatTuning(tuning);
  if (!HostRunsCuda()) GTEST_SKIP() << "no GPU to use it on";
  EXPECT_TRUE(CreateBackend(WithTuning(BackendKind::kCuda, path_)).ok());
}

TEST_F(TuningOptionTest, EachKernelCanBeForced) {
  if (!HostRunsCuda()) GTEST_SKIP() << "no GPU to force it on";
  for (const KernelPath kernel : {KernelPath::kAuto, KernelPath::kDecode}) {
    const auto backend = CreateBackend(WithKernel(BackendKind::kCuda, kernel));
    EXPECT_TRUE(backend.ok()) << backend.status();
  }
  // A system without cuBLASLt has no such path to force.
  const auto cublas =
      CreateBackend(WithKernel(BackendKind::kCuda, KernelPath::kCublas));
  EXPECT_TRUE(cublas.ok() || absl::IsFailedPrecondition(cublas.status()))
      << cublas.status();
}

}  // namespace
}  // namespace qgemm
