// SPDX-License-Identifier: Apache-2.0
//
// Backends by name, and options that only some of them take.

#include "kernels/backends/backends.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

BackendOptions Named(const std::string& name, int threads = 1) {
  BackendOptions options;
  options.name = name;
  options.threads = threads;
  return options;
}

BackendOptions WithKernel(const std::string& name, cuda::KernelPath kernel) {
  BackendOptions options = Named(name);
  options.cuda.kernel = kernel;
  return options;
}

BackendOptions WithTuning(const std::string& name, const std::string& file) {
  BackendOptions options = Named(name);
  options.cuda.tuning_file = file;
  return options;
}

bool BuildNamesCuda() { return BackendNames().front() == "cuda"; }
bool HostRunsCuda() { return CreateBackend(Named("cuda")).ok(); }

// The error's code and words; the backend must not be made.
void ExpectRefused(const BackendOptions& options, absl::StatusCode code,
                   const ::testing::Matcher<std::string>& message) {
  const absl::Status status = CreateBackend(options).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), message);
}

TEST(BackendsTest, MakesEachThatItNamesAndThisHostRuns) {
  ASSERT_FALSE(BackendNames().empty());
  for (const std::string& name : BackendNames()) {
    const auto backend = CreateBackend(Named(name));
    if (name == "cuda" && absl::IsFailedPrecondition(backend.status())) {
      continue;
    }
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->describe().name, name);
  }
}

TEST(BackendsTest, AutoIsTheFirstThatThisHostRuns) {
  const auto backend = CreateBackend(Named("auto"));
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->describe().name, HostRunsCuda() ? "cuda" : "cpu");
}

TEST(BackendsTest, HandsThreadsOnToTheProcessor) {
  const auto backend = CreateBackend(Named("cpu", 3));
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->describe().parallelism, 3);
}

TEST(BackendsTest, SaysWhatStandsInForCuda) {
  if (HostRunsCuda()) GTEST_SKIP() << "this host has a GPU";
  ExpectRefused(
      Named("cuda"), absl::StatusCode::kFailedPrecondition,
      HasSubstr(BuildNamesCuda() ? "CUDA device" : "it has: cpu, reference"));
}

TEST(BackendsTest, RefusesANameThatIsNone) {
  ExpectRefused(Named("tpu"), absl::StatusCode::kInvalidArgument,
                HasSubstr("\"tpu\""));
}

TEST(BackendsTest, RefusesNegativeThreads) {
  ExpectRefused(Named("reference", -1), absl::StatusCode::kInvalidArgument,
                HasSubstr("threads = -1"));
}

TEST(BackendsTest, RefusesAKernelPathOfABackendThatHasOne) {
  for (const char* name : {"cpu", "reference"}) {
    ExpectRefused(WithKernel(name, cuda::KernelPath::kDecode),
                  absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("--kernel = \"decode\""),
                        HasSubstr(absl::StrCat("backend ", name))));
    EXPECT_TRUE(CreateBackend(WithKernel(name, cuda::KernelPath::kAuto)).ok());
  }
}

TEST(BackendsTest, RefusesATuningOfABackendThatHasNone) {
  for (const char* name : {"cpu", "reference"}) {
    ExpectRefused(WithTuning(name, "/some/file"),
                  absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("--tuning_file = \"/some/file\""),
                        HasSubstr(absl::StrCat("backend ", name))));
  }
}

TEST(BackendsTest, AutoDoesNotDropWhatOnlyCudaTakes) {
  if (HostRunsCuda()) GTEST_SKIP() << "this host has a GPU";
  ExpectRefused(
      WithKernel("auto", cuda::KernelPath::kCublas),
      absl::StatusCode::kInvalidArgument,
      AllOf(HasSubstr("--kernel = \"cublas\": backend cpu"),
            HasSubstr(BuildNamesCuda() ? "auto took it because: " : "")));
}

class TuningOptionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!BuildNamesCuda()) GTEST_SKIP() << "a build without CUDA";
  }
  ~TuningOptionTest() override { std::remove(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + "/backend_tuning.json";
};

// The file's errors come first, with and without a GPU.
TEST_F(TuningOptionTest, AMissingFileIsNamed) {
  for (const char* name : {"auto", "cuda"}) {
    ExpectRefused(WithTuning(name, path_), absl::StatusCode::kNotFound,
                  HasSubstr(path_));
  }
}

TEST_F(TuningOptionTest, AnIllegalFileIsRefused) {
  std::ofstream(path_) << R"({"version": 7})";
  for (const char* name : {"auto", "cuda"}) {
    ExpectRefused(WithTuning(name, path_), absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr(path_), HasSubstr("version = 7")));
  }
}

TEST_F(TuningOptionTest, ATuningOfAnotherDeviceIsUsed) {
  std::ofstream(path_) << R"({"version": 2, "device": "another",)"
                       << R"( "max_decode_rows":)"
                       << R"( {"2": 64, "3": 64, "4": 128, "5": 64}})";
  if (!HostRunsCuda()) GTEST_SKIP() << "no GPU to use it on";
  EXPECT_TRUE(CreateBackend(WithTuning("cuda", path_)).ok());
}

TEST_F(TuningOptionTest, EachKernelPathCanBeForced) {
  if (!HostRunsCuda()) GTEST_SKIP() << "no GPU to force it on";
  for (const auto kernel :
       {cuda::KernelPath::kAuto, cuda::KernelPath::kDecode}) {
    const auto backend = CreateBackend(WithKernel("cuda", kernel));
    EXPECT_TRUE(backend.ok()) << backend.status();
  }
  // It needs cuBLASLt.
  const auto cublas =
      CreateBackend(WithKernel("cuda", cuda::KernelPath::kCublas));
  EXPECT_TRUE(cublas.ok() || absl::IsFailedPrecondition(cublas.status()))
      << cublas.status();
}

}  // namespace
}  // namespace qgemm
