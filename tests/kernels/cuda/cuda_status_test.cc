// SPDX-License-Identifier: Apache-2.0
//
// CUDA's codes as statuses; needs no GPU.

#include "kernels/cuda/runtime/cuda_status.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CudaStatusTest, SuccessIsOk) {
  EXPECT_TRUE(ToStatus(cudaSuccess, "copy").ok());
}

TEST(CudaStatusTest, NamesTheOperationAndTheError) {
  const absl::Status status = ToStatus(cudaErrorInvalidValue, "copy 12 bytes");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("copy 12 bytes: "),
                                      HasSubstr("cudaErrorInvalidValue")));
}

TEST(CudaStatusTest, MemoryMayComeBack) {
  EXPECT_EQ(ToStatus(cudaErrorMemoryAllocation, "allocate").code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CudaStatusTest, AHostThatCannotServeIsAFailedPrecondition) {
  for (const cudaError_t code :
       {cudaErrorNoDevice, cudaErrorInsufficientDriver,
        cudaErrorNoKernelImageForDevice, cudaErrorUnsupportedPtxVersion}) {
    EXPECT_EQ(ToStatus(code, "start").code(),
              absl::StatusCode::kFailedPrecondition)
        << cudaGetErrorName(code);
  }
}

TEST(CudaStatusTest, AStickyErrorSaysThatTheProcessMustRestart) {
  for (const cudaError_t code :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorAssert,
        cudaErrorECCUncorrectable, cudaErrorExternalDevice,
        cudaErrorContextIsDestroyed, cudaErrorDevicesUnavailable,
        cudaErrorMpsRpcFailure, cudaErrorMpsClientTerminated}) {
    EXPECT_TRUE(IsSticky(code)) << cudaGetErrorName(code);
    const absl::Status status = ToStatus(code, "multiply");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("must be restarted"));
  }
}

TEST(CudaStatusTest, OtherErrorsDoNot) {
  for (const cudaError_t code :
       {cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation}) {
    EXPECT_FALSE(IsSticky(code)) << cudaGetErrorName(code);
    EXPECT_THAT(ToStatus(code, "multiply").message(),
                Not(HasSubstr("restarted")));
  }
}

}  // namespace
}  // namespace qgemm::cuda
