// SPDX-License-Identifier: Apache-2.0
//
// Every row of every table that runs here computes the formula of
// microkernel.h, and rows of one key agree bit by bit.

#include "kernels/cpu/microkernel_table.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/float16.h"
#include "gtest/gtest.h"
#include "kernels/cpu/microkernels/code_packing.h"
#include "kernels/matrix/types.h"
#include "tests/support/seeds.h"

namespace qgemm::cpu {
namespace {

constexpr ScaleType kScaleTypes[] = {ScaleType::kE4m4, ScaleType::kFloat16,
                                     ScaleType::kBFloat16, ScaleType::kFloat32};

// Entries of 16 significant bits, of 8, or whole numbers that rise by one.
enum class EntryKind { kLong, kShort, kWhole };
constexpr EntryKind kEntryKinds[] = {EntryKind::kLong, EntryKind::kShort,
                                     EntryKind::kWhole};

std::vector<uint8_t> RandomBytes(int64_t count, int limit,
                                 RandomGenerator* random) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = RandomInt(0, limit - 1, random);
  return bytes;
}

// The type of 16-bit activations that the family reads, if it does.
bool TakesBFloat16(const Microkernel& kernel) {
  return kernel.family == kFamilyQuantABFloat16;
}
bool TakesFloat16(const Microkernel& kernel) {
  return kernel.family == kFamilyQuantAFloat16;
}

bool TakesQ8(const Microkernel& kernel) { return kernel.family == kFamilyW4A8; }

int LeastRows(const Microkernel& kernel) {
  return kernel.least_rows == 0 ? kernel.mr : kernel.least_rows;
}

// A row of sums.
std::array<uint32_t, kTileRows> BitsOf(const float* sums) {
  std::array<uint32_t, kTileRows> bits;
  for (int i = 0; i < kTileRows; ++i) bits[i] = FloatBits(sums[i]);
  return bits;
}

// One random tile and kMaxMr activation rows, in every form that the rows of
// a table read. Activations are about 2^exponent.
class Tile {
 public:
  Tile(const Microkernel& kernel, int64_t blocks, RandomGenerator* random,
       int exponent = 0)
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
    entries_ = RandomElement(kEntryKinds, random);
    zero_unit_ = entries_ == EntryKind::kWhole ? 1 : 0.125f;
    for (int i = 0; i < 32; ++i) AddEntry(i, random);
    SetTableParts();
    for (int64_t i = 0; i < k * kMaxMr; ++i) {
      a_.push_back(Activation(std::ldexp(RandomSigned(random), exponent)));
    }
    AddQuantized(random);
    Pack(random);
  }

  // `rows` rows from first_row on; `split` is the kernel's table's.
  std::vector<float> Run(const Microkernel& kernel, int first_row, int rows,
                         SplitRowFunction split) {
    const int64_t k = blocks_ * kBlockElements;
    std::vector<float> sums(kernel.tiles * rows * kTileRows, NAN);
    TileArgs args{};
    args.codes = packed_.data();
    args.scales = scales_.data();
    args.zeros = zeros_.data();
    args.table = table_.data();
    args.table_high = table_high_;
    args.table_low = has_table_low_ ? table_low_ : nullptr;
    args.zero_unit = zero_unit_;
    args.scale_type = static_cast<int>(scale_type_);
    args.group_shift = group_shift_;
    args.blocks = blocks_;
    args.block_bytes =
        dense() ? kBlockElements * kTileRows * 2 : BlockBytes(kernel_.bits);
    args.tiles = kernel.tiles;  // this one as its own neighbour
    args.a = a_.data() + first_row * k;
    args.a_stride = k;
    args.q8 = q8_.data() + first_row * k;
    args.d8 = d8_.data() + first_row * blocks_;
    args.q8_sum = q8_sum_.data() + first_row * blocks_;
    args.q8_stride = k;
    args.d8_stride = blocks_;
    args.sums = sums.data();
    std::vector<uint16_t> parts;
    std::vector<float> packed;
    if (kernel.form == kFormPacked) {
      packed = PackRows(kernel.group, first_row, rows, args);
    } else if (kernel.form == kFormParts) {
      parts = Split(kernel, first_row, rows, split, args);
    }
    kernel.run(&args);
    for (int i = 0; i < kernel.tiles * rows; ++i) {
      EXPECT_EQ(BitsOf(&sums[i * kTileRows]),
                BitsOf(&sums[i % rows * kTileRows]))
          << kernel.name << ", row " << i;
    }
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
  // Bytes behind the last block of codes.
  static constexpr int kReadable = 3;

  bool dense() const { return kernel_.bits == 0; }

  // Code i stands for i units where differences from zeros are looked up.
  void AddEntry(int i, RandomGenerator* random) {
    const int code = i % (1 << kernel_.bits);
    float entry =
        FloatFromBits(FloatBits(RandomSigned(random)) & ~uint32_t{0xff});
    if (code != i) entry = table_[code];
    if (TakesBFloat16(kernel_) || entries_ == EntryKind::kShort) {
      entry = RoundTo(FloatType::kBFloat16, entry);
    }
    if (entries_ == EntryKind::kWhole) {
      entry = i == 0 ? static_cast<float>(RandomInt(-8, 0, random))
                     : table_[0] + code;
    }
    const bool looked_up = TakesBFloat16(kernel_) || TakesFloat16(kernel_);
    if (kernel_.zeros && looked_up) entry = code * zero_unit_;
    table_.push_back(entry);
  }

  void SetTableParts() {
    for (int i = 0; i < 32; ++i) {
      const int difference = i < 16 ? i : i - 32;
      const float entry = kernel_.zeros ? difference * zero_unit_ : table_[i];
      table_high_[i] = FloatToBFloat16(entry);
      const float rest = entry - BFloat16ToFloat(table_high_[i]);
      table_low_[i] = FloatToBFloat16(rest);
      has_table_low_ |= rest != 0;
    }
  }

  float Activation(float value) const {
    if (TakesBFloat16(kernel_)) return RoundTo(FloatType::kBFloat16, value);
    if (TakesFloat16(kernel_)) return RoundTo(FloatType::kFloat16, value);
    return value;
  }

  // Rows as the kernel reads them in parts; points `args` at them.
  std::vector<uint16_t> Split(const Microkernel& kernel, int first_row,
                              int rows, SplitRowFunction split,
                              TileArgs& args) const {
    uint16_t pick[kBlockElements];
    for (int k = 0; k < kBlockElements; ++k) {
      const PairPlace place = PlaceInPairs(kernel_.bits, k);
      pick[2 * place.pair + place.half] = static_cast<uint16_t>(2 * k + 1);
    }
    args.rows = rows;
    args.part_rows = 2 * rows <= kernel.group ? rows : kernel.group;
    const int64_t low_offset = args.part_rows * kBlockElements;
    args.part_block = low_offset * (TakesFloat16(kernel_) ? 2 : 1);
    if (TakesQ8(kernel_)) args.part_block += args.part_rows * 2;
    const int64_t groups = (rows + args.part_rows - 1) / args.part_rows;
    std::vector<uint16_t> parts(groups * blocks_ * args.part_block);
    for (int r = 0; r < rows; ++r) {
      const int64_t in_group = r % args.part_rows;
      uint16_t* group =
          parts.data() + r / args.part_rows * blocks_ * args.part_block;
      uint16_t* high = group + in_group * kBlockElements;
      const std::vector<float> floats = FloatsOf(first_row + r);
      const RowParts row = {
          floats.data(), blocks_,
          pick,          args.part_block,
          high,          TakesFloat16(kernel_) ? high + low_offset : nullptr};
      split(&row);
      for (int64_t block = 0; TakesQ8(kernel_) && block < blocks_; ++block) {
        const float d8 = d8_[(first_row + r) * blocks_ + block];
        std::memcpy(group + block * args.part_block + low_offset + 2 * in_group,
                    &d8, sizeof(d8));
      }
    }
    args.parts = parts.data();
    return parts;
  }

  // The activations or the integers of a row, whichever are split.
  std::vector<float> FloatsOf(int row) const {
    const int64_t columns = blocks_ * kBlockElements;
    std::vector<float> floats(columns);
    for (int64_t k = 0; k < columns; ++k) {
      floats[k] = TakesQ8(kernel_) ? q8_[row * columns + StoredAt(k)]
                                   : a_[row * columns + k];
    }
    return floats;
  }

  // Position of column k in a row of q8.
  static int64_t StoredAt(int64_t k) {
    return k / 8 * 8 + k % 8 / 2 + k % 2 * 4;
  }

  // Rows in groups as the kernel reads them; points `args` at them. What pads
  // the last group is NaN.
  std::vector<float> PackRows(int64_t group, int first_row, int rows,
                              TileArgs& args) const {
    const int64_t columns = blocks_ * kBlockElements;
    std::vector<float> packed((rows + group - 1) / group * group * columns,
                              NAN);
    for (int r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < columns; ++i) {
        const int k = i % kBlockElements;
        const PairPlace place =
            dense() ? PairPlace{k / 2, k % 2} : PlaceInPairs(kernel_.bits, k);
        const int64_t to = i - k + place.half * 16 + place.pair;
        packed[r / group * group * columns + to * group + r % group] =
            a_[(first_row + r) * columns + i];
      }
    }
    args.rows = rows;
    args.packed = packed.data();
    return packed;
  }

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
    packed_.resize(blocks_ * BlockBytes(kernel_.bits) + kReadable);
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
      return scale * d8_[row * blocks_ + block] * (code - 8) *
             q8_[row * columns + StoredAt(k)];
    }
    const double zero = kernel_.zeros ? zeros_[group] * zero_unit_ : 0;
    return scale * a * (double{table_[code]} - zero);
  }

  const Microkernel kernel_;
  const int64_t blocks_;
  int group_shift_;
  EntryKind entries_;
  float zero_unit_;
  ScaleType scale_type_;
  std::vector<uint8_t> scales_, zeros_, codes_, packed_;
  std::vector<float> table_, a_, d8_;
  uint16_t table_high_[32], table_low_[32];
  bool has_table_low_ = false;
  std::vector<int8_t> q8_;
  std::vector<int32_t> q8_sum_;
};

class MicrokernelTableTest : public testing::TestWithParam<CpuIsa> {
 protected:
  // Row counts to try: small ones, the most, and those around a tile's 16.
  std::vector<int> SomeRows(const Microkernel& kernel) const {
    std::vector<int> counts;
    for (const int rows : {1, 2, 3, 8, 15, 16, 17, 31, 32, 61, 64, 81, 256}) {
      if (rows >= LeastRows(kernel) && rows <= kernel.mr) {
        counts.push_back(rows);
      }
    }
    return counts;
  }

  std::vector<float> Run(Tile& tile, const Microkernel& kernel, int first_row,
                         int rows) const {
    return tile.Run(kernel, first_row, rows, table_.split_row);
  }

  void ExpectFormula(Tile& tile, const Microkernel& kernel, int rows) {
    const std::vector<float> sums = Run(tile, kernel, 0, rows);
    for (int row = 0; row < rows; ++row) {
      for (int lane = 0; lane < kTileRows; ++lane) {
        double magnitude;
        const double expected = tile.Expected(row, lane, &magnitude);
        EXPECT_NEAR(sums[row * kTileRows + lane], expected,
                    RelativeError(kernel) * magnitude)
            << kernel.name << ", row " << row << " of " << rows << ", lane "
            << lane;
      }
    }
  }

  // Each row of a call against the same row alone.
  void ExpectAsAlone(Tile& tile, const Microkernel& kernel, int rows) {
    const MicrokernelChoice choice =
        Choose(table_, {kernel.family, kernel.bits, kernel.zeros != 0});
    const std::vector<float> together = Run(tile, kernel, 0, rows);
    for (int row = 0; row < rows; ++row) {
      const std::vector<float> alone = Run(tile, *choice.by_rows[0], row, 1);
      EXPECT_EQ(BitsOf(alone.data()), BitsOf(&together[row * kTileRows]))
          << kernel.name << ", row " << row << " of " << rows;
    }
  }

  const MicrokernelTable table_ = TableOf(GetParam());
  RandomGenerator random_{FreshSeed()};

 private:
  // Roundings that a term goes through: the difference from the zero, 16
  // additions of its half, the halves' sum, the scale's product and scale
  // (A8), the chain and the chains' sum; each at most 2^-24, and one more for
  // their products. Of fp16 activations a block's sum is three such sums, two
  // of them beside the first; low parts are below 2^-7 of an activation (cut
  // off) and 2^-8 of an entry (rounded), their product is left out, and the
  // entry's low part is rounded, to 2^-16 of the entry.
  static double RelativeError(const Microkernel& kernel) {
    const double roundings = 1 + 16 + 1 + 2 + kChunkBlocks + 3 + 1;
    if (!TakesFloat16(kernel)) return roundings * 0x1p-24;
    return (roundings + 3) * 0x1p-24 + 0x1p-15 + 0x1p-16;
  }
};

TEST_P(MicrokernelTableTest, EveryRowComputesTheFormula) {
  for (const Microkernel& kernel : table_.rows) {
    for (const int rows : SomeRows(kernel)) {
      Tile tile(kernel, RandomInt(1, 3 * kChunkBlocks, &random_), &random_);
      ExpectFormula(tile, kernel, rows);
    }
  }
}

TEST_P(MicrokernelTableTest, RowsOfOneKeyAgreeBitByBit) {
  for (const Microkernel& kernel : table_.rows) {
    for (const int rows : SomeRows(kernel)) {
      Tile tile(kernel, RandomInt(1, 2 * kChunkBlocks + 1, &random_), &random_);
      ExpectAsAlone(tile, kernel, rows);
    }
  }
}

TEST_P(MicrokernelTableTest, RowsAgreeWhereProductsAreSubnormal) {
  for (const Microkernel& kernel : table_.rows) {
    if (!TakesBFloat16(kernel)) continue;
    for (const int exponent : {-119, -124, -127}) {
      Tile tile(kernel, kChunkBlocks, &random_, exponent);
      ExpectAsAlone(tile, kernel, kernel.mr);
    }
  }
}

TEST_P(MicrokernelTableTest, ChoosesTheWidestThatFits) {
  const MicrokernelChoice choice = Choose(table_, {kFamilyQuantA32, 4, false});
  int widest = 0;
  for (int rows = 1; rows <= kMaxMr; ++rows) {
    for (const Microkernel& kernel : table_.rows) {
      if (kernel.family == kFamilyQuantA32 && LeastRows(kernel) <= rows) {
        widest = std::max(widest, kernel.mr);
      }
    }
    ASSERT_NE(choice.by_rows[rows - 1], nullptr);
    EXPECT_EQ(choice.by_rows[rows - 1]->mr, widest);
  }
}

TEST_P(MicrokernelTableTest, TilesTakeAllRowsFromTheirLeastOn) {
  if (GetParam() != CpuIsa::kAmx) GTEST_SKIP() << "this set has no tiles";
  const MicrokernelChoice integers = Choose(table_, {kFamilyW4A8, 4, false});
  EXPECT_EQ(integers.by_rows[30]->mr, 8);
  EXPECT_EQ(integers.by_rows[31]->mr, kMaxMr);
  const MicrokernelChoice choice =
      Choose(table_, {kFamilyQuantABFloat16, 4, false});
  EXPECT_EQ(choice.by_rows[0]->mr, 1);
  for (int rows = 2; rows <= kMaxMr; ++rows) {
    EXPECT_EQ(choice.by_rows[rows - 1]->mr, 32) << rows;
  }
}

TEST_P(MicrokernelTableTest, HasEveryFamilyAndWidth) {
  for (int bits = 2; bits <= 5; ++bits) {
    EXPECT_FALSE(Choose(table_, {kFamilyQuantA32, bits, false}).empty())
        << bits;
    EXPECT_FALSE(Choose(table_, {kFamilyQuantA32, bits, true}).empty()) << bits;
  }
  EXPECT_FALSE(Choose(table_, {kFamilyW4A8, 4, false}).empty());
  EXPECT_FALSE(Choose(table_, {kFamilyFloat16}).empty());
  EXPECT_FALSE(Choose(table_, {kFamilyBFloat16}).empty());
}

TEST_P(MicrokernelTableTest, Has16BitFamiliesOfEveryWidthOrOfNone) {
  const bool has_tiles = GetParam() == CpuIsa::kAmx;
  const bool has_pairs = GetParam() == CpuIsa::kAvx512Bf16;
  EXPECT_EQ(table_.split_row != nullptr, has_tiles || has_pairs);
  for (const int family : {kFamilyQuantABFloat16, kFamilyQuantAFloat16}) {
    const bool has = family == kFamilyQuantABFloat16 && has_pairs;
    for (int bits = 2; bits <= 5; ++bits) {
      EXPECT_EQ(Choose(table_, {family, bits, false}).empty(),
                !has_tiles && !has);
    }
    EXPECT_EQ(Choose(table_, {family, 4, true}).empty(), !has_tiles && !has);
  }
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
}  // namespace qgemm::cpu
