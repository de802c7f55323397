// SPDX-License-Identifier: Apache-2.0
//
// Processor time an answer and the overhead of a round trip.

#include "loadtest/report/run_figures.h"

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(RunFigures, CpuIsDividedByTheAnswers) {
  EXPECT_EQ(CpuMicrosecondsAnAnswer(absl::Milliseconds(3), 100), 30);
  EXPECT_EQ(CpuMicrosecondsAnAnswer(absl::Milliseconds(3), 0), 0);
}

TEST(RunFigures, OverheadIsWhatEchoAndDeviceLeave) {
  Yardstick yardstick;
  yardstick.echo_ns.Record(300);
  yardstick.device_ns.Record(200);
  yardstick.gemm_ns.Record(1000);
  const YardstickMedians medians = MediansOf(yardstick);
  EXPECT_DOUBLE_EQ(medians.echo_us, 0.3);
  EXPECT_DOUBLE_EQ(medians.device_us, 0.2);
  EXPECT_DOUBLE_EQ(medians.round_trip_us, 1);
  ASSERT_TRUE(medians.overhead_us.has_value());
  EXPECT_DOUBLE_EQ(*medians.overhead_us, 0.5);
}

TEST(RunFigures, OverheadNeedsAllThree) {
  Yardstick yardstick;
  yardstick.echo_ns.Record(300);
  yardstick.gemm_ns.Record(1000);
  EXPECT_FALSE(MediansOf(yardstick).overhead_us.has_value());
}

}  // namespace
}  // namespace qgemm
