// SPDX-License-Identifier: Apache-2.0
//
// Thresholds follow from times alone.

#include "bench/calibration.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

PathTimes Times(int64_t m, double decode_us, double cublas_us,
                int64_t n = 4096) {
  PathTimes times;
  times.bits = 4;
  times.shape = {4096, n};
  times.m = m;
  times.decode = absl::Microseconds(1) * decode_us;
  times.cublas = absl::Microseconds(1) * cublas_us;
  return times;
}

TEST(ChooseMaxDecodeRowsTest, TakesTheLastThatKeepsUp) {
  EXPECT_EQ(ChooseMaxDecodeRows(
                {Times(128, 10, 30), Times(192, 20, 31), Times(256, 40, 32)}),
            192);
}

TEST(ChooseMaxDecodeRowsTest, EqualTimesKeepUp) {
  EXPECT_EQ(ChooseMaxDecodeRows({Times(128, 10, 10)}), 128);
}

TEST(ChooseMaxDecodeRowsTest, StopsAtTheFirstThatFallsBehind) {
  EXPECT_EQ(ChooseMaxDecodeRows(
                {Times(128, 10, 30), Times(192, 32, 31), Times(256, 10, 32)}),
            128);
}

TEST(ChooseMaxDecodeRowsTest, IsOneLaunchWhereNothingKeepsUp) {
  EXPECT_EQ(ChooseMaxDecodeRows({Times(128, 31, 30)}), 64);
  EXPECT_EQ(ChooseMaxDecodeRows({}), 64);
}

TEST(ChooseMaxDecodeRowsTest, WeighsShapesByTheGeometricMean) {
  // Half as long on one, 1.9 times on the other.
  EXPECT_EQ(
      ChooseMaxDecodeRows({Times(128, 10, 20), Times(128, 190, 100, 8192)}),
      128);
  EXPECT_EQ(
      ChooseMaxDecodeRows({Times(128, 10, 20), Times(128, 210, 100, 8192)}),
      64);
}

TEST(ChooseMaxDecodeRowsTest, OrderDoesNotMatter) {
  EXPECT_EQ(ChooseMaxDecodeRows(
                {Times(256, 40, 32), Times(192, 20, 31), Times(128, 10, 30)}),
            192);
}

// Decode launches take 10 us for 64 rows, cuBLASLt 20 us a code bit
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
      case cuda::KernelPath::kDecode:
        result.median = absl::Microseconds(10 * launches);
        break;
      case cuda::KernelPath::kCublas:
        result.median = absl::Microseconds(20 * bits + launches);
        break;
      case cuda::KernelPath::kPrefill:
      case cuda::KernelPath::kAuto:
      case cuda::KernelPath::kW4A8:
      case cuda::KernelPath::kA32:
        return absl::InternalError("no path that is compared");
    }
    return result;
  }
};

TEST(CalibrateTest, ChoosesByCodeWidth) {
  FakeMeasurer measurer;
  const auto calibration = Calibrate(&measurer);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  // 9 launches' worth of 64 rows is at most 20 bits us: 4, 6, 8 and 11.
  EXPECT_THAT(calibration->tuning.max_decode_rows,
              testing::ElementsAre(256, 384, 512, 512));
  EXPECT_EQ(calibration->tuning.device, "NVIDIA Test 1");
}

TEST(CalibrateTest, TellsWhatItMeasured) {
  FakeMeasurer measurer;
  const auto calibration = Calibrate(&measurer);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const std::string text = FormatCalibration(*calibration);
  EXPECT_THAT(text, testing::HasSubstr("2 bits: the decode kernel to M = 256"));
  EXPECT_THAT(text, testing::HasSubstr("28672"));
  EXPECT_THAT(text, testing::HasSubstr("160.0"));  // decode, M = 1024
}

TEST(CalibrateTest, WhatItWritesIsRead) {
  FakeMeasurer measurer;
  const auto calibration = Calibrate(&measurer);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const auto read = cuda::ParseTuning(cuda::FormatTuning(calibration->tuning));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->device, calibration->tuning.device);
  EXPECT_EQ(read->max_decode_rows, calibration->tuning.max_decode_rows);
}

}  // namespace
}  // namespace qgemm
