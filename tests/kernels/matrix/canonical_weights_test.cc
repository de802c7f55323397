// SPDX-License-Identifier: Apache-2.0
//
// CanonicalWeights puts panels of any order and shape where they belong, and
// computes weights by the canonical formula.

#include "kernels/matrix/canonical_weights.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr int64_t kRows = 7;
constexpr int64_t kColumns = 77;  // groups of 32, 32 and 13

struct Rectangle {
  int64_t row_begin, rows, column_begin, columns;
};

// A random partition of [rows, columns] into rectangles, in random order.
std::vector<Rectangle> RandomPartition(int64_t rows, int64_t columns,
                                       std::mt19937_64* random) {
  std::vector<Rectangle> pieces = {{0, rows, 0, columns}};
  for (int cut = 0; cut < 20; ++cut) {
    Rectangle& piece = pieces[(*random)() % pieces.size()];
    Rectangle rest = piece;
    if ((*random)() % 2 == 0 && piece.rows > 1) {
      piece.rows = 1 + (*random)() % (piece.rows - 1);
      rest.row_begin += piece.rows;
      rest.rows -= piece.rows;
    } else if (piece.columns > 1) {
      piece.columns = 1 + (*random)() % (piece.columns - 1);
      rest.column_begin += piece.columns;
      rest.columns -= piece.columns;
    } else {
      continue;
    }
    pieces.push_back(rest);
  }
  std::shuffle(pieces.begin(), pieces.end(), *random);
  return pieces;
}

// The bytes of a rectangle of a row-major array of `element_bytes` elements.
std::vector<uint8_t> Cut(const std::vector<uint8_t>& whole, int64_t columns,
                         int64_t element_bytes, const Rectangle& piece) {
  std::vector<uint8_t> bytes;
  for (int64_t row = 0; row < piece.rows; ++row) {
    const auto begin = whole.begin() + ((piece.row_begin + row) * columns +
                                        piece.column_begin) *
                                           element_bytes;
    bytes.insert(bytes.end(), begin, begin + piece.columns * element_bytes);
  }
  return bytes;
}

std::vector<uint8_t> RandomBytes(int64_t size, int limit,
                                 std::mt19937_64* random) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((*random)() % limit);
  return bytes;
}

class CanonicalWeightsTest : public testing::Test {
 protected:
  CanonicalWeightsTest() : seed_(std::random_device{}()), random_(seed_) {
    RecordProperty("seed", std::to_string(seed_));
    header_.n = kRows;
    header_.k = kColumns;
    header_.bits = 4;
    header_.codebook.resize(16);
    std::iota(header_.codebook.begin(), header_.codebook.end(), 0.0f);
    header_.group_size = 32;
    header_.scale_type = ScaleType::kFloat32;
    header_.has_zeros = true;
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  WeightsHeader header_;
};

TEST_F(CanonicalWeightsTest, GathersPanelsOfAnyShapeInAnyOrder) {
  const int64_t groups = header_.groups_per_row();
  const std::vector<uint8_t> codes =
      RandomBytes(kRows * kColumns, 16, &random_);
  const std::vector<uint8_t> scales =
      RandomBytes(kRows * groups * 4, 256, &random_);
  const std::vector<uint8_t> zeros = RandomBytes(kRows * groups, 17, &random_);
  CanonicalWeights weights;
  ASSERT_TRUE(weights.Begin(header_).ok());
  for (const Rectangle& piece : RandomPartition(kRows, kColumns, &random_)) {
    const std::vector<uint8_t> bytes = Cut(codes, kColumns, 1, piece);
    ASSERT_TRUE(weights
                    .WriteCodes({piece.row_begin, piece.rows,
                                 piece.column_begin, piece.columns, bytes})
                    .ok());
  }
  for (const Rectangle& piece : RandomPartition(kRows, groups, &random_)) {
    const std::vector<uint8_t> bytes = Cut(scales, groups, 4, piece);
    ASSERT_TRUE(weights
                    .WriteScales({piece.row_begin, piece.rows,
                                  piece.column_begin, piece.columns, bytes})
                    .ok());
  }
  for (const Rectangle& piece : RandomPartition(kRows, groups, &random_)) {
    const std::vector<uint8_t> bytes = Cut(zeros, groups, 1, piece);
    ASSERT_TRUE(weights
                    .WriteZeros({piece.row_begin, piece.rows,
                                 piece.column_begin, piece.columns, bytes})
                    .ok());
  }
  EXPECT_EQ(weights.codes(), codes) << "seed " << seed_;
  EXPECT_EQ(weights.scales(), scales) << "seed " << seed_;
  EXPECT_EQ(weights.zeros(), zeros) << "seed " << seed_;
}

TEST_F(CanonicalWeightsTest, GathersDenseRows) {
  header_ = WeightsHeader();
  header_.kind = WeightsHeader::Kind::kDense;
  header_.n = kRows;
  header_.k = 5;
  header_.dense_type = FloatType::kBFloat16;
  const std::vector<uint8_t> dense = RandomBytes(kRows * 5 * 2, 256, &random_);
  CanonicalWeights weights;
  ASSERT_TRUE(weights.Begin(header_).ok());
  const auto rows = [&dense](int64_t begin, int64_t count) {
    return DensePanel{begin, count,
                      absl::MakeSpan(dense).subspan(begin * 10, count * 10)};
  };
  ASSERT_TRUE(weights.WriteDense(rows(3, 4)).ok());
  ASSERT_TRUE(weights.WriteDense(rows(0, 3)).ok());
  EXPECT_EQ(weights.dense(), dense) << "seed " << seed_;
  EXPECT_TRUE(weights.codes().empty());
}

// One row whose two groups have different scales and zeros.
TEST(CanonicalWeightsFormulaTest, AppliesCodebookZeroAndBothScales) {
  WeightsHeader header;
  header.n = 1;
  header.k = 3;
  header.bits = 2;
  header.codebook = {-1.0f, 0.25f, 3.0f, 7.0f};
  header.group_size = 2;
  header.scale_type = ScaleType::kFloat16;
  header.has_zeros = true;
  CanonicalWeights weights;
  ASSERT_TRUE(weights.Begin(header).ok());
  const std::vector<uint8_t> codes = {1, 3, 0};
  const std::vector<uint8_t> scales = {0x00, 0x38, 0x00, 0xc0};  // 0.5, -2
  const std::vector<uint8_t> zeros = {2, 16};
  ASSERT_TRUE(weights.WriteCodes({0, 1, 0, 3, codes}).ok());
  ASSERT_TRUE(weights.WriteScales({0, 1, 0, 2, scales}).ok());
  ASSERT_TRUE(weights.WriteZeros({0, 1, 0, 2, zeros}).ok());
  EXPECT_EQ(weights.tensor_scale(), 1.0f);
  ASSERT_TRUE(weights.SetTensorScale(4.0f).ok());
  EXPECT_EQ(weights.tensor_scale(), 4.0f);
  EXPECT_EQ(weights.Weight(0, 0), (0.25 - 2) * 0.5 * 4);
  EXPECT_EQ(weights.Weight(0, 1), (7.0 - 2) * 0.5 * 4);
  EXPECT_EQ(weights.Weight(0, 2), (-1.0 - 16) * -2.0 * 4);
}

TEST(CanonicalWeightsFormulaTest, IsExactWhereFloatIsNot) {
  WeightsHeader header;
  header.n = 1;
  header.k = 1;
  header.bits = 2;
  header.codebook = {0x1.fffffep-1f, 0, 0, 0};
  header.group_size = 1;
  header.scale_type = ScaleType::kFloat32;
  CanonicalWeights weights;
  ASSERT_TRUE(weights.Begin(header).ok());
  const std::vector<uint8_t> codes = {0};
  std::vector<uint8_t> scales(4);
  StoreFloat(FloatType::kFloat32, 0x1.000002p0f, scales.data());
  ASSERT_TRUE(weights.WriteCodes({0, 1, 0, 1, codes}).ok());
  ASSERT_TRUE(weights.WriteScales({0, 1, 0, 1, scales}).ok());
  EXPECT_EQ(weights.Weight(0, 0), 0x1.fffffep-1 * 0x1.000002p0);
}

TEST(CanonicalWeightsFormulaTest, ReadsDenseElements) {
  WeightsHeader header;
  header.kind = WeightsHeader::Kind::kDense;
  header.n = 2;
  header.k = 1;
  header.dense_type = FloatType::kFloat16;
  CanonicalWeights weights;
  ASSERT_TRUE(weights.Begin(header).ok());
  const std::vector<uint8_t> bytes = {0x00, 0x3c, 0x00, 0xc4};  // 1, -4
  ASSERT_TRUE(weights.WriteDense({0, 2, bytes}).ok());
  EXPECT_EQ(weights.Weight(0, 0), 1.0);
  EXPECT_EQ(weights.Weight(1, 0), -4.0);
}

TEST(CanonicalWeightsPermutationTest, NamesTheCallersFeature) {
  WeightsHeader header;
  header.n = 1;
  header.k = 3;
  header.bits = 2;
  header.codebook = {0, 1, 2, 3};
  header.group_size = 3;
  CanonicalWeights plain;
  ASSERT_TRUE(plain.Begin(header).ok());
  header.permutation = {2, 0, 1};
  CanonicalWeights permuted;
  ASSERT_TRUE(permuted.Begin(header).ok());
  for (int64_t column = 0; column < 3; ++column) {
    EXPECT_EQ(plain.InputFeature(column), column);
    EXPECT_EQ(permuted.InputFeature(column), header.permutation[column]);
  }
}

TEST(CanonicalWeightsDeathTest, RefusesPanelsOutsideTheShape) {
  WeightsHeader header;
  header.n = 2;
  header.k = 2;
  header.bits = 2;
  header.codebook = {0, 1, 2, 3};
  header.group_size = 2;
  CanonicalWeights weights;
  ASSERT_TRUE(weights.Begin(header).ok());
  const std::vector<uint8_t> codes(4);
  EXPECT_DEATH((void)weights.WriteCodes({1, 2, 0, 2, codes}), "CHECK failed");
  EXPECT_DEATH((void)weights.WriteCodes({0, 2, 1, 2, codes}), "CHECK failed");
  EXPECT_DEATH((void)weights.WriteCodes({0, 1, 0, 2, codes}), "CHECK failed");
}

}  // namespace
}  // namespace qgemm
