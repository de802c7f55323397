// SPDX-License-Identifier: Apache-2.0
//
// Which kernel multiplies a request, and why: by rows, code width, size of the
// layer and device.

#include "kernels/cuda/plan/kernel_path.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/plan/n_chunk_plan.h"
#include "kernels/cuda/plan/prefill_plan.h"
#include "kernels/cuda/plan/tile_plan.h"

namespace qgemm::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

DeviceTraits Hopper() {
  DeviceTraits device;
  device.has_wgmma = true;
  return device;
}

// The same without the prefill kernel.
DeviceTraits WithoutWgmma() { return DeviceTraits(); }

// A layer, with room for its tiles.
class TestLayer {
 public:
  TestLayer(int bits, int64_t n, int64_t k,
            const DeviceTraits& device = WithoutWgmma()) {
    shape_.n = n;
    shape_.k = k;
    if (bits == 0) return;
    WeightsShape weights;
    weights.n = n;
    weights.k = k;
    weights.bits = bits;
    weights.group_size = 32;
    weights.scale_type = ScaleType::kE4m4;
    tiles_ = *PlanTileLayout(weights, device);
    shape_.tiles = &tiles_;
    shape_.decode_kernel_max_m = DecodeKernelMaxM(tiles_, device);
  }
  TestLayer(const TestLayer&) = delete;
  TestLayer& operator=(const TestLayer&) = delete;

  const LayerShape& shape() const { return shape_; }
  LayerShape& shape() { return shape_; }

 private:
  TileLayout tiles_;
  LayerShape shape_;
};

TEST(KernelPathTest, HasANameEach) {
  for (const auto& [name, path] : kKernelPaths) {
    EXPECT_EQ(*ParseKernelPath(name), path);
    EXPECT_EQ(Name(path), name);
  }
  EXPECT_EQ(Name(KernelPath::kW4A8), "w4a8");
  EXPECT_EQ(Name(KernelPath::kA32), "a32");
  EXPECT_FALSE(ParseKernelPath("w4a8").ok());
  EXPECT_FALSE(ParseKernelPath("a32").ok());
  const absl::Status status = ParseKernelPath("medium").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("kernel = \"medium\""));
}

TEST(MaxSharedRowsTest, GoesByTheWidthOfTheCodes) {
  KernelPolicy policy;
  policy.tuning.max_decode_rows = {64, 128, 192, 4096};
  for (const auto& [bits, rows] :
       {std::pair<int, int64_t>{2, 64}, {3, 128}, {4, 192}, {5, 4096}}) {
    const TestLayer layer(bits, 28672, 8192);
    EXPECT_EQ(MaxSharedRows(layer.shape(), policy), rows) << bits;
    const DeviceTraits device = WithoutWgmma();
    EXPECT_EQ(ChooseKernelPath(layer.shape(), rows, device, policy).path,
              KernelPath::kDecode);
    EXPECT_EQ(ChooseKernelPath(layer.shape(), rows + 1, device, policy).path,
              KernelPath::kCublas);
  }
}

TEST(MaxSharedRowsTest, OfADenseLayerIsThatOfOneLaunch) {
  KernelPolicy policy;
  policy.tuning.max_decode_rows = {1024, 1024, 1024, 1024};
  EXPECT_EQ(MaxSharedRows(TestLayer(0, 28672, 8192).shape(), policy),
            kDecodeBlockM);
}

TEST(MaxSharedRowsTest, SmallLayersHaveShorterRequests) {
  KernelPolicy policy;
  policy.tuning.max_decode_rows = {1024, 1024, 1024, 64};
  const auto rows = [&](int bits, int64_t n, int64_t k) {
    return MaxSharedRows(TestLayer(bits, n, k).shape(), policy);
  };
  EXPECT_EQ(rows(4, 1024, 4096), 64);
  EXPECT_EQ(rows(4, 4096, 4096), 128);
  EXPECT_EQ(rows(5, 4096, 4096), 64);
  EXPECT_EQ(rows(4, 4096, 11008), 1024);
  EXPECT_EQ(rows(0, 4096, 11008), 64);
}

TEST(MaxSharedRowsTest, GoesByThePrefillKernelWhereThereIsOne) {
  KernelPolicy policy;
  policy.tuning.max_decode_rows = {1024, 1024, 128, 1024};
  TestLayer three(3, 28672, 8192);
  three.shape().decode_kernel_max_m = 192;
  EXPECT_EQ(MaxSharedRows(three.shape(), policy), 192);
  TestLayer four(4, 28672, 8192);
  four.shape().decode_kernel_max_m = 192;
  EXPECT_EQ(MaxSharedRows(four.shape(), policy), 128);
  TestLayer small(3, 1024, 4096);
  small.shape().decode_kernel_max_m = 256;
  EXPECT_EQ(MaxSharedRows(small.shape(), policy), 256);
}

TEST(MaxSharedRowsTest, AForcedPathTakesEveryRequest) {
  KernelPolicy policy;
  for (const int bits : {0, 2, 3, 4, 5}) {
    const TestLayer layer(bits, 28672, 8192);
    policy.forced = KernelPath::kDecode;
    EXPECT_EQ(MaxSharedRows(layer.shape(), policy), kNoLimit);
    for (const KernelPath many : {KernelPath::kPrefill, KernelPath::kCublas}) {
      policy.forced = many;
      EXPECT_EQ(MaxSharedRows(layer.shape(), policy), 0);
    }
  }
}

TEST(MaxSharedRowsTest, WithoutCublasLtAllGoesToTheDecodeKernel) {
  KernelPolicy policy;
  policy.has_cublas = false;
  const TestLayer layer(4, 28672, 8192);
  EXPECT_EQ(MaxSharedRows(layer.shape(), policy), kNoLimit);
  const KernelChoice choice =
      ChooseKernelPath(layer.shape(), 8192, WithoutWgmma(), policy);
  EXPECT_EQ(choice.path, KernelPath::kDecode);
  EXPECT_EQ(choice.reason, ChoiceReason::kNoCublas);
}

TEST(DecodeKernelMaxMTest, IsAMultipleOfABlockOfRows) {
  const DeviceTraits device = Hopper();
  for (const int64_t n : {1536, 4096, 28672}) {
    const TestLayer layer(4, n, 4096, device);
    const int64_t rows = layer.shape().decode_kernel_max_m;
    EXPECT_GE(rows, kDecodeBlockM);
    EXPECT_LE(rows, kMaxDecodeM);
    EXPECT_EQ(rows % kDecodeBlockM, 0);
  }
  EXPECT_EQ(TestLayer(4, 4096, 4096).shape().decode_kernel_max_m, 0);
}

TEST(ChooseKernelPathTest, ManyRowsGoToTheLowerEstimate) {
  const DeviceTraits device = Hopper();
  const TestLayer layer(4, 28672, 8192, device);
  const KernelPolicy policy;
  for (const int64_t m : {512, 1024, 4096}) {
    const KernelChoice choice =
        ChooseKernelPath(layer.shape(), m, device, policy);
    const NChunkProblem problem = NChunkProblemOf(m, 28672, 8192, false);
    const bool prefill =
        EstimatePrefill(*layer.shape().tiles, m, device).microseconds <=
        CublasMicroseconds(problem, NChunkRows(problem, device), device);
    EXPECT_EQ(choice.path,
              prefill ? KernelPath::kPrefill : KernelPath::kCublas);
    EXPECT_EQ(choice.reason, prefill ? ChoiceReason::kPrefillFaster
                                     : ChoiceReason::kCublasFaster);
  }
}

TEST(ChooseKernelPathTest, AForcedPathFallsBackToCublasLt) {
  KernelPolicy policy;
  policy.forced = KernelPath::kPrefill;
  const DeviceTraits device = Hopper();
  const TestLayer layer(4, 4096, 4096, device);
  EXPECT_EQ(ChooseKernelPath(layer.shape(), 1, device, policy).path,
            KernelPath::kPrefill);
  const KernelChoice without =
      ChooseKernelPath(layer.shape(), 1, WithoutWgmma(), policy);
  EXPECT_EQ(without.path, KernelPath::kCublas);
  EXPECT_EQ(without.reason, ChoiceReason::kNoPrefillKernel);
  policy.forced = KernelPath::kCublas;
  EXPECT_EQ(ChooseKernelPath(layer.shape(), 1, device, policy).reason,
            ChoiceReason::kForced);
}

TEST(ChooseKernelPathTest, DenseLayersGoToCublasLt) {
  const TestLayer layer(0, 4096, 4096);
  for (const int64_t m : {1, 64, 65, 4096}) {
    EXPECT_EQ(ChooseKernelPath(layer.shape(), m, Hopper(), KernelPolicy()).path,
              KernelPath::kCublas);
  }
}

TEST(DescribeKernelPathsTest, NamesPathsAndReasons) {
  const DeviceTraits device = Hopper();
  const std::string text = DescribeKernelPaths(
      TestLayer(4, 28672, 8192, device).shape(), device, KernelPolicy());
  EXPECT_THAT(text, HasSubstr("decode (few rows) up to m = "));
  EXPECT_THAT(text, HasSubstr("prefill (estimated faster than cuBLASLt)"));
  KernelPolicy policy;
  policy.forced = KernelPath::kDecode;
  EXPECT_EQ(DescribeKernelPaths(TestLayer(4, 4096, 4096).shape(),
                                WithoutWgmma(), policy),
            "decode (forced) for every m");
}

}  // namespace
}  // namespace qgemm::cuda
