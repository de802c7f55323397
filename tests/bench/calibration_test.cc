// SPDX-License-Identifier: Apache-2.0
//
// Thresholds follow from times alone.

#include "bench/calibration.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

FamilyTimes Times(int64_t m, double small_us, double large_us,
                  int64_t n = 4096) {
  FamilyTimes times;
  times.bits = 4;
  times.shape = {4096, n};
  times.m = m;
  times.small = absl::Microseconds(1) * small_us;
  times.large = absl::Microseconds(1) * large_us;
  return times;
}

TEST(ChooseMaxSmallRowsTest, TakesTheLastThatKeepsUp) {
  EXPECT_EQ(ChooseMaxSmallRows(
                {Times(128, 10, 30), Times(192, 20, 31), Times(256, 40, 32)}),
            192);
}

TEST(ChooseMaxSmallRowsTest, EqualTimesKeepUp) {
  EXPECT_EQ(ChooseMaxSmallRows({Times(128, 10, 10)}), 128);
}

TEST(ChooseMaxSmallRowsTest, StopsAtTheFirstThatFallsBehind) {
  EXPECT_EQ(ChooseMaxSmallRows(
                {Times(128, 10, 30), Times(192, 32, 31), Times(256, 10, 32)}),
            128);
}

TEST(ChooseMaxSmallRowsTest, IsOneLaunchWhereNothingKeepsUp) {
  EXPECT_EQ(ChooseMaxSmallRows({Times(128, 31, 30)}), 64);
  EXPECT_EQ(ChooseMaxSmallRows({}), 64);
}

TEST(ChooseMaxSmallRowsTest, WeighsShapesByTheGeometricMean) {
  // Half as long on one, 1.9 times on the other.
  EXPECT_EQ(
      ChooseMaxSmallRows({Times(128, 10, 20), Times(128, 190, 100, 8192)}),
      128);
  EXPECT_EQ(
      ChooseMaxSmallRows({Times(128, 10, 20), Times(128, 210, 100, 8192)}), 64);
}

TEST(ChooseMaxSmallRowsTest, OrderDoesNotMatter) {
  EXPECT_EQ(ChooseMaxSmallRows(
                {Times(256, 40, 32), Times(192, 20, 31), Times(128, 10, 30)}),
            192);
}

// Small launches take 10 us for 64 rows, the large family 20 us a code bit
// and 1 us for 64 rows.
class FakeMeasurer final : public Measurer {
 public:
  BenchMachine machine() const override {
    BenchMachine machine;
    machine.backend = {"cuda", "NVIDIA Test 1", "", 1};
    return machine;
  }
  absl::StatusOr<ReadRoof> MeasureRoof() override { return ReadRoof(); }
  absl::StatusOr<CaseResult> Measure(const BenchCase& one) override {
    const int64_t launches = one.m / 64;
    const int bits = one.format.back() - '0';
    CaseResult result;
    switch (one.kernel) {
      case KernelChoice::kSmall:
        result.median = absl::Microseconds(10 * launches);
        break;
      case KernelChoice::kLarge:
        result.median = absl::Microseconds(20 * bits + launches);
        break;
      case KernelChoice::kWide:
      case KernelChoice::kAuto:
        return absl::InternalError("no family that is compared");
    }
    return result;
  }
};

TEST(CalibrateTest, ChoosesByCodeWidth) {
  FakeMeasurer measurer;
  const auto calibration = Calibrate(&measurer);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  // 9 launches' worth of 64 rows is at most 20 bits us: 4, 6, 8 and 11.
  EXPECT_THAT(calibration->tuning.max_small_rows,
              testing::ElementsAre(256, 384, 512, 512));
  EXPECT_EQ(calibration->tuning.device, "NVIDIA Test 1");
}

TEST(CalibrateTest, TellsWhatItMeasured) {
  FakeMeasurer measurer;
  const auto calibration = Calibrate(&measurer);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const std::string text = FormatCalibration(*calibration);
  EXPECT_THAT(text, testing::HasSubstr("2 bits: the small family to M = 256"));
  EXPECT_THAT(text, testing::HasSubstr("28672"));
  EXPECT_THAT(text, testing::HasSubstr("160.0"));  // small, M = 1024
}

TEST(CalibrateTest, WhatItWritesIsRead) {
  FakeMeasurer measurer;
  const auto calibration = Calibrate(&measurer);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const auto read = cuda::ParseTuning(cuda::FormatTuning(calibration->tuning));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->device, calibration->tuning.device);
  EXPECT_EQ(read->max_small_rows, calibration->tuning.max_small_rows);
}

}  // namespace
}  // namespace qgemm
