// SPDX-License-Identifier: Apache-2.0
//
// Hands each sampled row on as a panel of its own.

#include "bench/sampled_rows.h"

#include <algorithm>

#include "base/status_macros.h"

namespace qgemm {

std::vector<int64_t> SpreadIndices(int64_t extent, int64_t count) {
  if (count >= extent) count = extent;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) {
    indices.push_back(count == 1 ? 0 : i * (extent - 1) / (count - 1));
  }
  return indices;
}

template <typename Write>
absl::Status SampledRows::ForEachSample(int64_t row_begin, int64_t rows,
                                        absl::Span<const uint8_t> bytes,
                                        Write write) {
  const size_t row_bytes = bytes.size() / rows;
  auto sample = std::lower_bound(rows_.begin(), rows_.end(), row_begin);
  for (; sample != rows_.end() && *sample < row_begin + rows; ++sample) {
    const auto row =
        bytes.subspan((*sample - row_begin) * row_bytes, row_bytes);
    RETURN_IF_ERROR(write(sample - rows_.begin(), row));
  }
  return absl::OkStatus();
}

absl::Status SampledRows::Begin(const WeightsHeader& header) {
  if (!header.bias.empty()) {
    return absl::InvalidArgumentError("sampled rows: the layer has a bias");
  }
  rows_ = SpreadIndices(header.n, count_);
  WeightsHeader sampled = header;
  sampled.n = static_cast<int64_t>(rows_.size());
  return weights_.Begin(sampled);
}

absl::Status SampledRows::WriteCodes(const CodePanel& panel) {
  return ForEachSample(panel.row_begin, panel.rows, panel.codes,
                       [&](int64_t sample, absl::Span<const uint8_t> row) {
                         return weights_.WriteCodes(
                             {sample, 1, panel.k_begin, panel.columns, row});
                       });
}

absl::Status SampledRows::WriteScales(const GroupPanel& panel) {
  return ForEachSample(panel.row_begin, panel.rows, panel.bytes,
                       [&](int64_t sample, absl::Span<const uint8_t> row) {
                         return weights_.WriteScales(
                             {sample, 1, panel.group_begin, panel.groups, row});
                       });
}

absl::Status SampledRows::WriteZeros(const GroupPanel& panel) {
  return ForEachSample(panel.row_begin, panel.rows, panel.bytes,
                       [&](int64_t sample, absl::Span<const uint8_t> row) {
                         return weights_.WriteZeros(
                             {sample, 1, panel.group_begin, panel.groups, row});
                       });
}

absl::Status SampledRows::WriteDense(const DensePanel& panel) {
  return ForEachSample(panel.row_begin, panel.rows, panel.bytes,
                       [&](int64_t sample, absl::Span<const uint8_t> row) {
                         return weights_.WriteDense({sample, 1, row});
                       });
}

absl::Status SampledRows::SetTensorScale(float tensor_scale) {
  return weights_.SetTensorScale(tensor_scale);
}

}  // namespace qgemm
