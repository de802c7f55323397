// SPDX-License-Identifier: Apache-2.0
//
// Checks what arrives and hands it to the uploader.

#include "kernels/cuda/cuda_weights_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/wqa16_wide.h"
#include "kernels/cuda/runtime/device_info.h"
#include "kernels/cuda/tuning/batch_plan.h"
#include "kernels/cuda/tuning/partition.h"

namespace qgemm::cuda {
namespace {

absl::Status CheckLimit(const char* field, int64_t value, int64_t limit) {
  if (value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "weights: ", field, " = ", value, " is beyond the limit of ", limit));
}

// e such that all magnitudes are at most 2^e, as far as 2^e and 2^-e are
// normal floats; 0 for a codebook of zeros.
int ExponentOf(const std::vector<float>& codebook) {
  float largest = 0;
  for (float value : codebook) largest = std::max(largest, std::fabs(value));
  int exponent = 0;
  std::frexp(largest, &exponent);
  return std::min(126, std::max(-126, exponent));
}

template <typename T>
absl::Span<const uint8_t> BytesOf(const std::vector<T>& values) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                             values.size() * sizeof(T));
}

// Rows up to which the small family is expected to be faster than the wide one;
// 0 where that does not multiply the layer.
int64_t FasterThanWide(const TileLayout& layout, const DeviceTraits& device) {
  if (!OffersWqa16Wide(layout)) return 0;
  const Partition& partition = layout.partition;
  const double once =
      SmallMicroseconds({layout.n, layout.k}, partition, device);
  const int64_t blocks = partition.row_blocks * partition.splits;
  int64_t rows = kMaxSmallRows;
  for (; rows < kMaxSmallLaunchRows; rows += kMaxSmallRows) {
    const int64_t next = rows + kMaxSmallRows;
    const int64_t waves =
        CeilDiv(next / kMaxSmallRows * blocks, device.multiprocessors);
    const double time = static_cast<double>(waves) * once;
    if (time > Wqa16WideMicroseconds(layout, next)) break;
  }
  return rows;
}

}  // namespace

int64_t EstimateResidentBytes(const WeightsShape& shape,
                              const DeviceTraits& device) {
  if (shape.dense) {
    const absl::StatusOr<DenseLayout> layout = DenseLayoutOf(shape);
    return layout.ok() ? layout->total_bytes : 0;
  }
  const absl::StatusOr<TileLayout> layout = TileLayoutOf(shape, device);
  return layout.ok() ? layout->total_bytes : 0;
}

absl::Status CudaWeightsBuilder::Begin(const WeightsHeader& header) {
  CHECK(uploader_ == nullptr) << "Begin comes once";
  RETURN_IF_ERROR(CheckLimit("n", header.n, budget_.max_n));
  RETURN_IF_ERROR(CheckLimit("k", header.k, budget_.max_k));
  n_ = header.n;
  k_ = header.k;
  parts_.traits = TraitsOf(header);
  RETURN_IF_ERROR(parts_.traits.dense ? BeginDense(header)
                                      : BeginQuantized(header));
  return CopyVectors(header);
}

absl::Status CudaWeightsBuilder::BeginQuantized(const WeightsHeader& header) {
  CHECK_EQ(static_cast<int64_t>(header.codebook.size()),
           int64_t{1} << header.bits);
  TiledWeights& tiled = parts_.tiled;
  ASSIGN_OR_RETURN(tiled.layout, TileLayoutOf(header, budget_.device));
  RETURN_IF_ERROR(TakeMemory(header, tiled.layout.total_bytes));
  parts_.faster_than_wide = FasterThanWide(tiled.layout, budget_.device);
  groups_ = header.groups_per_row();
  const int exponent = ExponentOf(header.codebook);
  tiled.memory = parts_.memory.data();
  tiled.factor = std::ldexp(1.0f, exponent);
  tiled.zero_unit = std::ldexp(1.0f, -exponent);
  tiled.has_bias = parts_.traits.has_bias;
  tiled.has_permutation = parts_.traits.has_permutation;
  UploadTarget target;
  target.layout = tiled.layout;
  target.scale_type = header.scale_type;
  return OpenUploader(std::move(target));
}

absl::Status CudaWeightsBuilder::BeginDense(const WeightsHeader& header) {
  DenseWeights& dense = parts_.dense;
  ASSIGN_OR_RETURN(dense.layout, DenseLayoutOf(header));
  RETURN_IF_ERROR(TakeMemory(header, dense.layout.total_bytes));
  dense.memory = parts_.memory.data();
  dense.has_bias = parts_.traits.has_bias;
  return OpenUploader({});
}

absl::Status CudaWeightsBuilder::OpenUploader(UploadTarget target) {
  target.lanes = budget_.lanes != nullptr
                     ? budget_.lanes
                     : std::make_shared<UploadLanePool>(budget_.device_index);
  target.device_index = budget_.device_index;
  target.memory = parts_.memory.data();
  target.memory_bytes = parts_.memory.size_bytes();
  ASSIGN_OR_RETURN(uploader_, PanelUploader::Create(target));
  return absl::OkStatus();
}

absl::Status CudaWeightsBuilder::TakeMemory(const WeightsHeader& header,
                                            int64_t bytes) {
  ByteCharge charge(budget_.used_bytes, bytes);
  if (budget_.used_bytes->load() > budget_.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "weights of n = ", header.n, ", k = ", header.k, " take ", bytes,
        " bytes; the cuda backend's limit for all weights is ",
        budget_.max_bytes));
  }
  RETURN_IF_ERROR(SetCurrentDevice(budget_.device_index));
  ASSIGN_OR_RETURN(parts_.memory, DeviceBuffer::Allocate(bytes));
  parts_.charge = std::move(charge);
  return absl::OkStatus();
}

absl::Status CudaWeightsBuilder::CopyVectors(const WeightsHeader& header) {
  if (parts_.traits.dense) {
    return uploader_->Copy(parts_.dense.layout.bias_offset,
                           BytesOf(header.bias));
  }
  const TileLayout& layout = parts_.tiled.layout;
  RETURN_IF_ERROR(uploader_->Copy(layout.bias_offset, BytesOf(header.bias)));
  RETURN_IF_ERROR(
      uploader_->Copy(layout.permutation_offset, BytesOf(header.permutation)));
  // Divided by a power of two, so that no entry exceeds 1.
  std::vector<float> codebook = header.codebook;
  for (float& value : codebook) value *= parts_.tiled.zero_unit;
  return uploader_->Copy(layout.codebook_offset, BytesOf(codebook));
}

absl::Status CudaWeightsBuilder::WriteCodes(const CodePanel& panel) {
  CHECK(panel.row_begin >= 0 && panel.row_begin + panel.rows <= n_);
  CHECK(panel.k_begin >= 0 && panel.k_begin + panel.columns <= k_);
  CHECK_EQ(static_cast<int64_t>(panel.codes.size()),
           panel.rows * panel.columns);
  return uploader_->Scatter(PanelKind::kCodes,
                            {panel.row_begin, panel.rows, panel.k_begin,
                             panel.columns, 1, panel.codes.data()});
}

absl::Status CudaWeightsBuilder::WriteGroups(PanelKind kind,
                                             const GroupPanel& panel,
                                             int64_t element_bytes) {
  CHECK(panel.row_begin >= 0 && panel.row_begin + panel.rows <= n_);
  CHECK(panel.group_begin >= 0 && panel.group_begin + panel.groups <= groups_);
  CHECK_EQ(static_cast<int64_t>(panel.bytes.size()),
           panel.rows * panel.groups * element_bytes);
  return uploader_->Scatter(
      kind, {panel.row_begin, panel.rows, panel.group_begin, panel.groups,
             element_bytes, panel.bytes.data()});
}

absl::Status CudaWeightsBuilder::WriteScales(const GroupPanel& panel) {
  return WriteGroups(PanelKind::kScales, panel,
                     SizeOf(parts_.traits.scale_type));
}

absl::Status CudaWeightsBuilder::WriteZeros(const GroupPanel& panel) {
  CHECK(parts_.traits.has_zeros);
  return WriteGroups(PanelKind::kZeros, panel, 1);
}

absl::Status CudaWeightsBuilder::WriteDense(const DensePanel& panel) {
  CHECK(parts_.traits.dense);
  CHECK(panel.row_begin >= 0 && panel.row_begin + panel.rows <= n_);
  const int64_t row_bytes = parts_.dense.layout.row_bytes();
  CHECK_EQ(static_cast<int64_t>(panel.bytes.size()), panel.rows * row_bytes);
  return uploader_->Copy(panel.row_begin * row_bytes, panel.bytes);
}

absl::Status CudaWeightsBuilder::SetTensorScale(float tensor_scale) {
  parts_.tiled.factor *= tensor_scale;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const ResidentWeights>>
CudaWeightsBuilder::Finish() {
  CHECK(uploader_ != nullptr) << "Finish comes once, after Begin";
  if (parts_.traits.dense) {
    RETURN_IF_ERROR(uploader_->Finish());
  } else {
    ASSIGN_OR_RETURN(parts_.largest_scale,
                     uploader_->FinishScales(parts_.tiled));
  }
  uploader_ = nullptr;
  std::shared_ptr<const ResidentWeights> weights =
      std::make_shared<CudaWeights>(n_, k_, std::move(parts_));
  parts_ = CudaWeightsParts();
  return weights;
}

}  // namespace qgemm::cuda
