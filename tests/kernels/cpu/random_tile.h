// SPDX-License-Identifier: Apache-2.0

#ifndef QGEMM_TESTS_KERNELS_CPU_RANDOM_TILE_H_
#define QGEMM_TESTS_KERNELS_CPU_RANDOM_TILE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cpu/microkernel_table.h"
#include "kernels/matrix/types.h"
#include "tests/support/seeds.h"

namespace qgemm::cpu {

// The type of 16-bit activations that the family reads, if it does.
bool TakesBFloat16(const Microkernel& kernel);
bool TakesFloat16(const Microkernel& kernel);
// True if it multiplies weights by their scales first.
bool IsScaled(const Microkernel& kernel);

// The bits of a row of sums.
std::array<uint32_t, kTileRows> BitsOf(const float* sums);

// One random tile and kernel.mr activation rows, in every form that the rows of
// a table read. Activations are about 2^exponent.
class RandomTile {
 public:
  RandomTile(const Microkernel& kernel, int64_t blocks, RandomGenerator* random,
             int exponent = 0);

  // `rows` rows from first_row on; `split` is the kernel's table's.
  std::vector<float> Run(const Microkernel& kernel, int first_row, int rows,
                         SplitRowFunction split);

  // The formula in double; `magnitude` gets the sum of its terms' magnitudes.
  double Expected(int row, int lane, double* magnitude) const;

 private:
  // Entries of 16 significant bits, of 8, or whole numbers that rise by one.
  enum class EntryKind { kLong, kShort, kWhole };

  // Bytes behind the last block of codes.
  static constexpr int kReadable = 3;

  bool dense() const;

  // Code i stands for i units where differences from zeros are looked up.
  void AddEntry(int i, RandomGenerator* random);
  void SetTableParts();
  float Activation(float value) const;

  // Rows as the kernel reads them in parts; points `args` at them.
  std::vector<uint16_t> Split(const Microkernel& kernel, int first_row,
                              int rows, SplitRowFunction split,
                              TileArgs& args) const;

  // Likewise the integers and the scales behind them.
  std::vector<uint16_t> CopyQuantized(int first_row, int rows,
                                      TileArgs& args) const;

  // Position of column k in a row of q8.
  static int64_t StoredAt(int64_t k);

  // Rows in groups as the kernel reads them; points `args` at them. What pads
  // the last group is NaN.
  std::vector<float> PackRows(int64_t group, int first_row, int rows,
                              TileArgs& args) const;

  void AddScale(RandomGenerator* random);
  void AddQuantized(RandomGenerator* random);
  void Pack(RandomGenerator* random);
  FloatType dense_type() const;
  double Term(int row, int lane, int64_t k) const;

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

}  // namespace qgemm::cpu

#endif  // QGEMM_TESTS_KERNELS_CPU_RANDOM_TILE_H_
