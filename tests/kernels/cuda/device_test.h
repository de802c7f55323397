// SPDX-License-Identifier: Apache-2.0
//
// The fixture of tests that need a GPU: they skip themselves without one.

#ifndef QGEMM_TESTS_KERNELS_CUDA_DEVICE_TEST_H_
#define QGEMM_TESTS_KERNELS_CUDA_DEVICE_TEST_H_

#include "gtest/gtest.h"
#include "kernels/cuda/runtime/device.h"

namespace qgemm::cuda {

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<Device> device = OpenDevice(0);
    if (absl::IsFailedPrecondition(device.status())) {
      GTEST_SKIP() << device.status();
    }
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
  }

  Device device_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_DEVICE_TEST_H_
