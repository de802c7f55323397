// SPDX-License-Identifier: Apache-2.0

#include "tests/kernels/cpu/random_tile.h"

#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "gtest/gtest.h"
#include "kernels/cpu/microkernels/code_packing.h"

namespace qgemm::cpu {
namespace {

constexpr ScaleType kScaleTypes[] = {ScaleType::kE4m4, ScaleType::kFloat16,
                                     ScaleType::kBFloat16, ScaleType::kFloat32};

std::vector<uint8_t> RandomBytes(int64_t count, int limit,
                                 RandomGenerator* random) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = RandomInt(0, limit - 1, random);
  return bytes;
}

bool TakesQ8(const Microkernel& kernel) { return kernel.family == kFamilyW4A8; }

}  // namespace

bool TakesBFloat16(const Microkernel& kernel) {
  return kernel.family == kFamilyQuantABFloat16 ||
         kernel.family == kFamilyScaledABFloat16;
}
bool TakesFloat16(const Microkernel& kernel) {
  return kernel.family == kFamilyQuantAFloat16 ||
         kernel.family == kFamilyScaledAFloat16;
}
bool IsScaled(const Microkernel& kernel) {
  return kernel.family == kFamilyScaledABFloat16 ||
         kernel.family == kFamilyScaledAFloat16;
}

std::array<uint32_t, kTileRows> BitsOf(const float* sums) {
  std::array<uint32_t, kTileRows> bits;
  for (int i = 0; i < kTileRows; ++i) bits[i] = FloatBits(sums[i]);
  return bits;
}

RandomTile::RandomTile(const Microkernel& kernel, int64_t blocks,
                       RandomGenerator* random, int exponent)
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
  constexpr EntryKind kKinds[] = {EntryKind::kLong, EntryKind::kShort,
                                  EntryKind::kWhole};
  entries_ = RandomElement(kKinds, random);
  zero_unit_ = entries_ == EntryKind::kWhole ? 1 : 0.125f;
  for (int i = 0; i < 32; ++i) AddEntry(i, random);
  SetTableParts();
  for (int64_t i = 0; i < k * kernel.mr; ++i) {
    a_.push_back(Activation(std::ldexp(RandomSigned(random), exponent)));
  }
  AddQuantized(random);
  Pack(random);
}

std::vector<float> RandomTile::Run(const Microkernel& kernel, int first_row,
                                   int rows, SplitRowFunction split) {
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
    EXPECT_EQ(BitsOf(&sums[i * kTileRows]), BitsOf(&sums[i % rows * kTileRows]))
        << kernel.name << ", row " << i;
  }
  return sums;
}

double RandomTile::Expected(int row, int lane, double* magnitude) const {
  double sum = 0;
  *magnitude = 0;
  for (int64_t k = 0; k < blocks_ * kBlockElements; ++k) {
    const double term = Term(row, lane, k);
    sum += term;
    *magnitude += std::fabs(term);
  }
  return sum;
}

bool RandomTile::dense() const { return kernel_.bits == 0; }

void RandomTile::AddEntry(int i, RandomGenerator* random) {
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

void RandomTile::SetTableParts() {
  for (int i = 0; i < 32; ++i) {
    const int difference = i < 16 ? i : i - 32;
    const float entry = kernel_.zeros ? difference * zero_unit_ : table_[i];
    table_high_[i] = FloatToBFloat16(entry);
    const float rest = entry - BFloat16ToFloat(table_high_[i]);
    table_low_[i] = FloatToBFloat16(rest);
    has_table_low_ |= rest != 0;
  }
}

float RandomTile::Activation(float value) const {
  if (TakesBFloat16(kernel_)) return RoundTo(FloatType::kBFloat16, value);
  if (TakesFloat16(kernel_)) return RoundTo(FloatType::kFloat16, value);
  return value;
}

std::vector<uint16_t> RandomTile::Split(const Microkernel& kernel,
                                        int first_row, int rows,
                                        SplitRowFunction split,
                                        TileArgs& args) const {
  uint16_t pick[kBlockElements];
  for (int k = 0; k < kBlockElements; ++k) {
    const PairPlace place = PlaceInPairs(kernel_.bits, k);
    pick[2 * place.pair + place.half] = static_cast<uint16_t>(2 * k + 1);
  }
  args.rows = rows;
  args.part_rows = 2 * rows <= kernel.group ? rows : kernel.group;
  if (TakesQ8(kernel_)) return CopyQuantized(first_row, rows, args);
  const int64_t low_offset = args.part_rows * kBlockElements;
  args.part_block = low_offset * (TakesFloat16(kernel_) ? 2 : 1);
  const int64_t groups = (rows + args.part_rows - 1) / args.part_rows;
  std::vector<uint16_t> parts(groups * blocks_ * args.part_block);
  const int64_t columns = blocks_ * kBlockElements;
  for (int r = 0; r < rows; ++r) {
    uint16_t* high = parts.data() +
                     r / args.part_rows * blocks_ * args.part_block +
                     r % args.part_rows * kBlockElements;
    const RowParts row = {&a_[(first_row + r) * columns],
                          blocks_,
                          pick,
                          args.part_block,
                          high,
                          TakesFloat16(kernel_) ? high + low_offset : nullptr};
    split(&row);
  }
  args.parts = parts.data();
  return parts;
}

std::vector<uint16_t> RandomTile::CopyQuantized(int first_row, int rows,
                                                TileArgs& args) const {
  const int64_t columns = blocks_ * kBlockElements;
  const int64_t integers = args.part_rows * kBlockElements / 2;
  args.part_block = integers + args.part_rows * 2;
  const int64_t groups = (rows + args.part_rows - 1) / args.part_rows;
  std::vector<uint16_t> parts(groups * blocks_ * args.part_block);
  for (int r = 0; r < rows; ++r) {
    const int64_t in_group = r % args.part_rows;
    const int row = first_row + r;
    for (int64_t i = 0; i < blocks_; ++i) {
      uint16_t* block =
          parts.data() + (r / args.part_rows * blocks_ + i) * args.part_block;
      std::memcpy(block + in_group * kBlockElements / 2,
                  &q8_[row * columns + i * kBlockElements], kBlockElements);
      std::memcpy(block + integers + 2 * in_group, &d8_[row * blocks_ + i],
                  sizeof(float));
    }
  }
  args.parts = parts.data();
  return parts;
}

int64_t RandomTile::StoredAt(int64_t k) {
  return k / 8 * 8 + k % 8 / 2 + k % 2 * 4;
}

std::vector<float> RandomTile::PackRows(int64_t group, int first_row, int rows,
                                        TileArgs& args) const {
  const int64_t columns = blocks_ * kBlockElements;
  std::vector<float> packed((rows + group - 1) / group * group * columns, NAN);
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

void RandomTile::AddScale(RandomGenerator* random) {
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

void RandomTile::AddQuantized(RandomGenerator* random) {
  for (int64_t i = 0; i < kernel_.mr * blocks_; ++i) {
    d8_.push_back(1.5f + RandomSigned(random));
    int32_t sum = 0;
    for (int j = 0; j < kBlockElements; ++j) {
      q8_.push_back(RandomInt(-127, 127, random));
      sum += q8_.back();
    }
    q8_sum_.push_back(sum);
  }
}

void RandomTile::Pack(RandomGenerator* random) {
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

FloatType RandomTile::dense_type() const {
  return kernel_.family == kFamilyFloat16 ? FloatType::kFloat16
                                          : FloatType::kBFloat16;
}

double RandomTile::Term(int row, int lane, int64_t k) const {
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

}  // namespace qgemm::cpu
