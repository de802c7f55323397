// SPDX-License-Identifier: Apache-2.0
//
// Scatters panels into whole row-major arrays.

#include "kernels/matrix/canonical_weights.h"

#include <algorithm>

#include "base/check.h"

namespace qgemm {
namespace {

// Copies a [rows, row_bytes] block to column offset `begin` of rows that are
// `pitch` bytes apart.
void CopyBlock(absl::Span<const uint8_t> block, int64_t rows, int64_t row_bytes,
               int64_t begin, int64_t pitch, uint8_t* target) {
  CHECK_EQ(static_cast<int64_t>(block.size()), rows * row_bytes);
  CHECK_LE(begin + row_bytes, pitch);
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(block.data() + row * row_bytes, row_bytes,
                target + row * pitch + begin);
  }
}

}  // namespace

absl::Status CanonicalWeights::Begin(const WeightsHeader& header) {
  header_ = header;
  const int64_t elements = header.n * header.k;
  if (header.kind == WeightsHeader::Kind::kDense) {
    dense_.resize(elements * SizeOf(header.dense_type));
    return absl::OkStatus();
  }
  const int64_t groups = header.n * header.groups_per_row();
  codes_.resize(elements);
  scales_.resize(groups * SizeOf(header.scale_type));
  if (header.has_zeros) zeros_.resize(groups);
  return absl::OkStatus();
}

absl::Status CanonicalWeights::WriteCodes(const CodePanel& panel) {
  CHECK_LE(panel.row_begin + panel.rows, header_.n);
  CopyBlock(panel.codes, panel.rows, panel.columns, panel.k_begin, header_.k,
            codes_.data() + panel.row_begin * header_.k);
  return absl::OkStatus();
}

absl::Status CanonicalWeights::WriteScales(const GroupPanel& panel) {
  CHECK_LE(panel.row_begin + panel.rows, header_.n);
  const int64_t size = SizeOf(header_.scale_type);
  const int64_t pitch = header_.groups_per_row() * size;
  CopyBlock(panel.bytes, panel.rows, panel.groups * size,
            panel.group_begin * size, pitch,
            scales_.data() + panel.row_begin * pitch);
  return absl::OkStatus();
}

absl::Status CanonicalWeights::WriteZeros(const GroupPanel& panel) {
  CHECK_LE(panel.row_begin + panel.rows, header_.n);
  const int64_t pitch = header_.groups_per_row();
  CopyBlock(panel.bytes, panel.rows, panel.groups, panel.group_begin, pitch,
            zeros_.data() + panel.row_begin * pitch);
  return absl::OkStatus();
}

absl::Status CanonicalWeights::WriteDense(const DensePanel& panel) {
  CHECK_LE(panel.row_begin + panel.rows, header_.n);
  const int64_t pitch = header_.k * SizeOf(header_.dense_type);
  CopyBlock(panel.bytes, panel.rows, pitch, 0, pitch,
            dense_.data() + panel.row_begin * pitch);
  return absl::OkStatus();
}

absl::Status CanonicalWeights::SetTensorScale(float tensor_scale) {
  tensor_scale_ = tensor_scale;
  return absl::OkStatus();
}

double CanonicalWeights::Weight(int64_t row, int64_t column) const {
  const int64_t element = row * header_.k + column;
  if (header_.kind == WeightsHeader::Kind::kDense) {
    return LoadFloat(header_.dense_type,
                     &dense_[element * SizeOf(header_.dense_type)]);
  }
  const int64_t group =
      row * header_.groups_per_row() + column / header_.group_size;
  const double scale = LoadScale(header_.scale_type,
                                 &scales_[group * SizeOf(header_.scale_type)]);
  const double zero = header_.has_zeros ? zeros_[group] : 0.0;
  return (header_.codebook[codes_[element]] - zero) * scale * tensor_scale_;
}

}  // namespace qgemm
