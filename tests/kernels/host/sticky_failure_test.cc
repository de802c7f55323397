// SPDX-License-Identifier: Apache-2.0
//
// The first reason stays.

#include "kernels/host/sticky_failure.h"

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(StickyFailureTest, IsOkUntilItIsSetAndThenUnavailableForEver) {
  StickyFailure failure;
  EXPECT_EQ(failure.status(), absl::OkStatus());
  failure.Set("the device is lost");
  EXPECT_EQ(failure.status(), absl::UnavailableError("the device is lost"));
  failure.Set("and a launch hangs");
  EXPECT_EQ(failure.status(), absl::UnavailableError("the device is lost"));
}

}  // namespace
}  // namespace qgemm
