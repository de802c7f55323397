// SPDX-License-Identifier: Apache-2.0
//
// Parts of the tests of mode A8: quantization by scalar code, and rows on the
// device.

#ifndef QGEMM_TESTS_KERNELS_CUDA_W4A8_TEST_H_
#define QGEMM_TESTS_KERNELS_CUDA_W4A8_TEST_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/host_device.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/quantize_rows.h"
#include "kernels/cuda/launch/w4a8_gemm.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/matrix/types.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/random_matrix.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {

inline constexpr FloatType kTypes[] = {
    FloatType::kFloat16, FloatType::kBFloat16, FloatType::kFloat32};

// A row's block of 32 columns.
struct Q8 {
  float d8 = 0;
  std::array<int8_t, kQ8Block> q8 = {};
};

inline Q8 QuantizeOnHost(const float* x) {
  Q8 block;
  float amax = 0;
  for (int i = 0; i < kQ8Block; ++i) amax = std::max(amax, std::fabs(x[i]));
  block.d8 = amax / 127.0f;
  for (int i = 0; i < kQ8Block && block.d8 > 0; ++i) {
    block.q8[i] = static_cast<int8_t>(std::round(x[i] / block.d8));
  }
  return block;
}

// [m][k / 32]
inline std::vector<Q8> QuantizeOnHost(FloatType type,
                                      const std::vector<uint8_t>& a) {
  std::vector<Q8> blocks(a.size() / SizeOf(type) / kQ8Block);
  for (size_t i = 0; i < blocks.size(); ++i) {
    float x[kQ8Block];
    for (int j = 0; j < kQ8Block; ++j) {
      x[j] = LoadFloat(type, &a[(i * kQ8Block + j) * SizeOf(type)]);
    }
    blocks[i] = QuantizeOnHost(x);
  }
  return blocks;
}

class W4A8Test : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(PreparePrefillGemm(device_), cudaSuccess);
    ASSERT_EQ(PrepareW4A8Gemm(device_), cudaSuccess);
  }

  // Bytes of Q8_1 of either kernel.
  static int64_t RoomOf(int64_t m, int64_t k) {
    return RoundUp(m, int64_t{kDecodeBlockM}) *
           Q8RoomOfRow(CeilDiv(k, int64_t{kTileColumns}));
  }

  // Room for Q8_1, poisoned, so that what nobody writes shows.
  static DeviceBuffer Quantize(const DeviceBuffer& a, FloatType type, int64_t m,
                               int64_t k, Q8Order order = Q8Order::kFragments) {
    DeviceBuffer out = AllocatePoisoned(RoomOf(m, k));
    QuantizeRowsArgs args;
    args.a = a.data();
    args.a_type = type;
    args.m = m;
    args.k = k;
    args.out = out.data();
    args.order = order;
    CHECK_EQ(LaunchQuantizeRows(args, nullptr), cudaSuccess);
    return out;
  }

  RandomGenerator random_{FreshSeed()};
};

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_W4A8_TEST_H_
