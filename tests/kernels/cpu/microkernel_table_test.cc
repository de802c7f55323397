// SPDX-License-Identifier: Apache-2.0
//
// Every row of every table that runs here computes the formula of
// microkernel.h, and rows of one key agree bit by bit.

#include "kernels/cpu/microkernel_table.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/code_packing.h"
#include "kernels/matrix/types.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

constexpr ScaleType kScaleTypes[] = {ScaleType::kE4m4, ScaleType::kFloat16,
                                     ScaleType::kBFloat16, ScaleType::kFloat32};

std::vector<uint8_t> RandomBytes(int64_t count, int limit,
                                 RandomGenerator* random) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = RandomInt(0, limit - 1, random);
  return bytes;
}

// One random tile and kMaxMr activation rows, in every form that the rows of
// a table read.
class Tile {
 public:
  Tile(const Microkernel& kernel, int64_t blocks, RandomGenerator* random)
      : kernel_(kernel), blocks_(blocks) {
    const int64_t k = blocks * kBlockElements;
    group_shift_ = RandomInt(0, 2, random);
    const int64_t groups = ((blocks - 1) >> group_shift_) + 1;
    scale_type_ = RandomElement(kScaleTypes, random);
    for (int64_t i = 0; i < groups * kTileRows; ++i) {
      AddScale(random);
    }
    zeros_ = RandomBytes(groups * kTileRows, 17, random);
    codes_ = RandomBytes(k * kTileRows, 1 << kernel.bits, random);
    for (int i = 0; i < 32; ++i) table_.push_back(RandomSigned(random));
    for (int i = 1 << kernel.bits; i < 32; ++i) {
      table_[i] = table_[i - (1 << kernel.bits)];
    }
    for (int64_t i = 0; i < k * kMaxMr; ++i) a_.push_back(RandomSigned(random));
    AddQuantized(random);
    Pack(random);
  }

  std::vector<float> Run(const Microkernel& kernel, int first_row) {
    const int64_t k = blocks_ * kBlockElements;
    std::vector<float> sums(kernel.mr * kTileRows, NAN);
    TileArgs args{};
    args.codes = packed_.data();
    args.scales = scales_.data();
    args.zeros = zeros_.data();
    args.table = table_.data();
    args.zero_unit = kZeroUnit;
    args.scale_type = static_cast<int>(scale_type_);
    args.group_shift = group_shift_;
    args.blocks = blocks_;
    args.a = a_.data() + first_row * k;
    args.a_stride = k;
    args.q8 = q8_.data() + first_row * k;
    args.d8 = d8_.data() + first_row * blocks_;
    args.q8_sum = q8_sum_.data() + first_row * blocks_;
    args.q8_stride = k;
    args.d8_stride = blocks_;
    args.sums = sums.data();
    kernel.run(&args);
    return sums;
  }

  // The formula in double; `magnitude` gets the sum of its terms' magnitudes.
  double Expected(int row, int lane, double* magnitude) const {
    double sum = 0;
    *magnitude = 0;
    for (int64_t k = 0; k < blocks_ * kBlockElements; ++k) {
      const double term = Term(row, lane, k);
      sum += term;
      *magnitude += std::fabs(term);
    }
    return sum;
  }

 private:
  static constexpr float kZeroUnit = 0.125f;

  bool dense() const { return kernel_.bits == 0; }

  void AddScale(RandomGenerator* random) {
    uint8_t bytes[4];
    const float value = 1.5f + RandomSigned(random);
    switch (scale_type_) {
      case ScaleType::kE4m4:
        bytes[0] = RandomInt(0, 255, random);
        break;
      case ScaleType::kFloat16:
        StoreFloat(FloatType::kFloat16, value, bytes);
        break;
      case ScaleType::kBFloat16:
        StoreFloat(FloatType::kBFloat16, value, bytes);
        break;
      case ScaleType::kFloat32:
        StoreFloat(FloatType::kFloat32, value, bytes);
        break;
    }
    scales_.insert(scales_.end(), bytes, bytes + SizeOf(scale_type_));
  }

  void AddQuantized(RandomGenerator* random) {
    for (int64_t i = 0; i < kMaxMr * blocks_; ++i) {
      d8_.push_back(1.5f + RandomSigned(random));
      int32_t sum = 0;
      for (int j = 0; j < kBlockElements; ++j) {
        q8_.push_back(RandomInt(-127, 127, random));
        sum += q8_.back();
      }
      q8_sum_.push_back(sum);
    }
  }

  void Pack(RandomGenerator* random) {
    const int64_t k = blocks_ * kBlockElements;
    if (dense()) {
      packed_.resize(k * kTileRows * 2);
      for (int64_t i = 0; i < k * kTileRows; ++i) {
        StoreFloat(dense_type(), RandomSigned(random), packed_.data() + 2 * i);
      }
      return;
    }
    packed_.resize(blocks_ * BlockBytes(kernel_.bits));
    for (int64_t block = 0; block < blocks_; ++block) {
      for (int lane = 0; lane < kTileRows; ++lane) {
        PackBlockRow(kernel_.bits, &codes_[lane * k + block * kBlockElements],
                     lane, &packed_[block * BlockBytes(kernel_.bits)]);
      }
    }
  }

  FloatType dense_type() const {
    return kernel_.family == kFamilyFloat16 ? FloatType::kFloat16
                                            : FloatType::kBFloat16;
  }

  double Term(int row, int lane, int64_t k) const {
    const int64_t columns = blocks_ * kBlockElements;
    const double a = a_[row * columns + k];
    if (dense()) {
      return a * LoadFloat(dense_type(), &packed_[(k * kTileRows + lane) * 2]);
    }
    const int64_t block = k / kBlockElements;
    const int64_t group = (block >> group_shift_) * kTileRows + lane;
    const double unit = scale_type_ == ScaleType::kE4m4 ? 1.0 / 16 : 1;
    const double scale =
        unit * LoadScale(scale_type_, &scales_[group * SizeOf(scale_type_)]);
    const int code = codes_[lane * columns + k];
    if (kernel_.family == kFamilyW4A8) {
      const int64_t stored = k / 8 * 8 + k % 8 / 2 + k % 2 * 4;
      return scale * d8_[row * blocks_ + block] * (code - 8) *
             q8_[row * columns + stored];
    }
    const double zero = kernel_.zeros ? zeros_[group] * kZeroUnit : 0;
    return scale * a * (double{table_[code]} - zero);
  }

  const Microkernel kernel_;
  const int64_t blocks_;
  int group_shift_;
  ScaleType scale_type_;
  std::vector<uint8_t> scales_, zeros_, codes_, packed_;
  std::vector<float> table_, a_, d8_;
  std::vector<int8_t> q8_;
  std::vector<int32_t> q8_sum_;
};

class MicrokernelTableTest : public testing::TestWithParam<CpuIsa> {
 protected:
  const MicrokernelTable table_ = TableOf(GetParam());
  RandomGenerator random_{FreshSeed()};
};

TEST_P(MicrokernelTableTest, EveryRowComputesTheFormula) {
  for (const Microkernel& kernel : table_.rows) {
    const int64_t blocks = RandomInt(1, 3 * kChunkBlocks, &random_);
    Tile tile(kernel, blocks, &random_);
    const std::vector<float> sums = tile.Run(kernel, 0);
    // Roundings that a term goes through: the difference from the zero, 16
    // additions of its parity, the parities' sum, the scale's product and
    // scale (A8), the chain and the chains' sum; each at most 2^-24, and one
    // more for their products.
    const double roundings = 1 + 16 + 1 + 2 + kChunkBlocks + 3 + 1;
    for (int row = 0; row < kernel.mr; ++row) {
      for (int lane = 0; lane < kTileRows; ++lane) {
        double magnitude;
        const double expected = tile.Expected(row, lane, &magnitude);
        EXPECT_NEAR(sums[row * kTileRows + lane], expected,
                    roundings * 0x1p-24 * magnitude)
            << kernel.name << ", row " << row << ", lane " << lane;
      }
    }
  }
}

TEST_P(MicrokernelTableTest, RowsOfOneKeyAgreeBitByBit) {
  for (const Microkernel& kernel : table_.rows) {
    const MicrokernelChoice choice =
        Choose(table_, {kernel.family, kernel.bits, kernel.zeros != 0});
    Tile tile(kernel, 2 * kChunkBlocks + 1, &random_);
    const std::vector<float> together = tile.Run(kernel, 0);
    for (int row = 0; row < kernel.mr; ++row) {
      const std::vector<float> alone = tile.Run(*choice.by_rows[0], row);
      EXPECT_EQ(std::memcmp(alone.data(), &together[row * kTileRows],
                            kTileRows * sizeof(float)),
                0)
          << kernel.name << ", row " << row;
    }
  }
}

TEST_P(MicrokernelTableTest, ChoosesTheWidestThatFits) {
  const MicrokernelChoice choice = Choose(table_, {kFamilyWqA32, 4, false});
  int widest = 0;
  for (int rows = 1; rows <= kMaxMr; ++rows) {
    for (const Microkernel& kernel : table_.rows) {
      if (kernel.family == kFamilyWqA32 && kernel.mr <= rows) {
        widest = std::max(widest, kernel.mr);
      }
    }
    ASSERT_NE(choice.by_rows[rows - 1], nullptr);
    EXPECT_EQ(choice.by_rows[rows - 1]->mr, widest);
  }
}

TEST_P(MicrokernelTableTest, HasEveryFamilyAndWidth) {
  for (int bits = 2; bits <= 5; ++bits) {
    EXPECT_FALSE(Choose(table_, {kFamilyWqA32, bits, false}).empty()) << bits;
    EXPECT_FALSE(Choose(table_, {kFamilyWqA32, bits, true}).empty()) << bits;
  }
  EXPECT_FALSE(Choose(table_, {kFamilyW4A8, 4, false}).empty());
  EXPECT_FALSE(Choose(table_, {kFamilyFloat16}).empty());
  EXPECT_FALSE(Choose(table_, {kFamilyBFloat16}).empty());
}

TEST_P(MicrokernelTableTest, HalvesConvertExactlyBothWays) {
  std::vector<uint16_t> halves;
  for (int bits = 0; bits < 0x7c00; ++bits) halves.push_back(bits);
  std::vector<float> floats(halves.size());
  table_.half_conversions.from_half(halves.data(), halves.size(),
                                    floats.data());
  std::vector<uint16_t> back(halves.size());
  table_.half_conversions.to_half(floats.data(), floats.size(), back.data());
  EXPECT_EQ(back, halves);
}

INSTANTIATE_TEST_SUITE_P(Isas, MicrokernelTableTest,
                         testing::ValuesIn(SupportedCpuIsas()),
                         [](const testing::TestParamInfo<CpuIsa>& info) {
                           return std::string(Name(info.param));
                         });

}  // namespace
}  // namespace qgemm
