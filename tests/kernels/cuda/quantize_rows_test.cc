// SPDX-License-Identifier: Apache-2.0
//
// Activations of mode A8 are quantized to the bit, in either order.

#include "kernels/cuda/launch/quantize_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/matrix/types.h"
#include "tests/kernels/cuda/w4a8_test.h"
#include "tests/support/random_matrix.h"

namespace qgemm::cuda {
namespace {

// A block as the quantizing kernel left it, by fragments or by panels.
Q8 BlockAt(const std::vector<uint8_t>& out, const Q8PanelLayout& layout,
           int64_t row, int64_t block) {
  Q8 read;
  std::memcpy(&read.d8, &out[layout.ScaleIndex(row, block) * 4], 4);
  for (int i = 0; i < kQ8Block && block * kQ8Block < layout.k; ++i) {
    const int64_t place = row * layout.k + Q8PanelColumn(block * kQ8Block + i);
    read.q8[i] = static_cast<int8_t>(LoadFloat(
        FloatType::kFloat16, &out[layout.integers_offset() + place * 2]));
  }
  return read;
}
Q8 BlockAt(const std::vector<uint8_t>& out, const Q8Layout& layout, int64_t row,
           int64_t block) {
  const uint8_t* const tile = &out[layout.TileOffset(row, block / 4)];
  const int in_tile = static_cast<int>(row % kQ8TileRows);
  Q8 read;
  std::memcpy(&read.d8, tile + Q8ScaleOffset(in_tile, block % 4), 4);
  for (int i = 0; i < kQ8Block; ++i) {
    read.q8[i] = static_cast<int8_t>(
        tile[Q8CodeOffset(in_tile, block % 4 * kQ8Block + i)]);
  }
  return read;
}

TEST_F(W4A8Test, QuantizesToTheBit) {
  for (const FloatType type : kTypes) {
    for (const int64_t k : {32, 128, 416, 4096}) {
      const int64_t m = RandomInt(1, 70, &random_);
      std::vector<uint8_t> a = RandomMatrix(type, m, k, &random_);
      // A block of zeros, and one of a tie: x / d = 63.5.
      std::fill_n(a.begin(), kQ8Block * SizeOf(type), 0);
      if (m > 1) {
        for (int i = 0; i < kQ8Block; ++i) {
          StoreFloat(type, i % 2 == 0 ? 127.0f : -63.5f,
                     &a[(k + i) * SizeOf(type)]);
        }
      }
      const std::vector<Q8> expected = QuantizeOnHost(type, a);
      const std::vector<uint8_t> fragments =
          Download(Quantize(Upload(a), type, m, k));
      const std::vector<uint8_t> panels =
          Download(Quantize(Upload(a), type, m, k, Q8Order::kPanels));
      const Q8Layout layout = Q8LayoutOf(m, k);
      for (int64_t row = 0; row < m; ++row) {
        for (int64_t block = 0; block < layout.k_tiles * 4; ++block) {
          const Q8 want = block * kQ8Block < k
                              ? expected[row * (k / kQ8Block) + block]
                              : Q8();
          for (const Q8& got :
               {BlockAt(fragments, layout, row, block),
                BlockAt(panels, Q8PanelLayoutOf(m, k), row, block)}) {
            ASSERT_TRUE(want.d8 == got.d8 && want.q8 == got.q8)
                << Name(type) << ", row " << row << ", block " << block
                << ", k = " << k;
          }
        }
      }
    }
  }
}

TEST_F(W4A8Test, GivesABlockThatIsNotFiniteNanForItsScale) {
  constexpr int64_t kK = 128;
  for (const float strike : {std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<uint8_t> a = RandomMatrix(FloatType::kFloat32, 1, kK, &random_);
    StoreFloat(FloatType::kFloat32, strike, &a[37 * 4]);
    const std::vector<uint8_t> out =
        Download(Quantize(Upload(a), FloatType::kFloat32, 1, kK));
    for (int block = 0; block < 4; ++block) {
      const float d8 = BlockAt(out, Q8LayoutOf(1, kK), 0, block).d8;
      EXPECT_EQ(std::isnan(d8), block == 1) << d8;
    }
  }
}

}  // namespace
}  // namespace qgemm::cuda
