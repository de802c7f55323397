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
#include "base/log.h"
#include "base/status_macros.h"
#include "kernels/cuda/plan/tile_plan.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/host/batch_checks.h"

namespace qgemm::cuda {
namespace {

// The exponent e such that all magnitudes are at most 2^e, as far as 2^e and
// 2^-e are normal floats; 0 for a codebook of zeros.
int ExponentOf(const std::vector<float>& codebook) {
  float largest = 0;
  for (float value : codebook) largest = std::max(largest, std::fabs(value));
  int exponent = 0;
  std::frexp(largest, &exponent);
  return std::min(126, std::max(-126, exponent));
}

// Kernels take codes of layers with zeros for the numbers themselves.
absl::Status CheckNumbers(const WeightsHeader& header) {
  if (!header.has_zeros) return absl::OkStatus();
  for (size_t code = 0; code < header.codebook.size(); ++code) {
    if (header.codebook[code] == static_cast<float>(code)) continue;
    return absl::UnimplementedError(absl::StrCat(
        "weights: zeros with codebook[", code, "] = ", header.codebook[code],
        "; the cuda backend offers zeros where each code stands for itself"));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Span<const uint8_t> BytesOf(const std::vector<T>& values) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                             values.size() * sizeof(T));
}

}  // namespace

int64_t EstimateResidentBytes(const WeightsShape& shape,
                              const DeviceTraits& device) {
  if (shape.dense) {
    const absl::StatusOr<DenseLayout> layout = DenseLayoutOf(shape);
    return layout.ok() ? layout->total_bytes : 0;
  }
  const absl::StatusOr<TileLayout> layout = PlanTileLayout(shape, device);
  return layout.ok() ? layout->total_bytes : 0;
}

absl::StatusOr<CudaLayerMemory> TakeMemory(const CudaWeightsBudget& budget,
                                           int64_t bytes) {
  CudaLayerMemory taken;
  ASSIGN_OR_RETURN(taken.reservation, budget.weights->Reserve(bytes));
  RETURN_IF_ERROR(SetCurrentDevice(budget.device_index));
  if (budget.kept == nullptr) {
    ASSIGN_OR_RETURN(DeviceBuffer memory, DeviceBuffer::Allocate(bytes));
    taken.memory = LayerMemory<DeviceBuffer>(std::move(memory));
  } else {
    ASSIGN_OR_RETURN(ArenaPlace place, budget.kept->arena()->Allocate(bytes));
    taken.memory = LayerMemory<DeviceBuffer>(std::move(place));
  }
  return taken;
}

absl::Status CudaWeightsBuilder::Begin(const WeightsHeader& header) {
  CHECK(uploader_ == nullptr) << "Begin comes once";
  parts_.shape = header;
  RETURN_IF_ERROR(CheckLayerLimits(parts_.shape, budget_.limits));
  RETURN_IF_ERROR(parts_.shape.dense ? BeginDense() : BeginQuantized(header));
  return CopyVectors(header);
}

absl::Status CudaWeightsBuilder::BeginQuantized(const WeightsHeader& header) {
  CHECK_EQ(static_cast<int64_t>(header.codebook.size()),
           int64_t{1} << header.bits);
  TiledWeights& tiled = parts_.tiled;
  RETURN_IF_ERROR(CheckNumbers(header));
  ASSIGN_OR_RETURN(tiled.layout, PlanTileLayout(parts_.shape, budget_.device));
  RETURN_IF_ERROR(TakeMemory(tiled.layout.total_bytes));
  parts_.decode_kernel_max_m = DecodeKernelMaxM(tiled.layout, budget_.device);
  const int exponent = ExponentOf(header.codebook);
  tiled.memory = parts_.memory.data();
  tiled.factor = std::ldexp(1.0f, exponent);
  tiled.zero_unit = std::ldexp(1.0f, -exponent);
  tiled.has_bias = parts_.shape.has_bias;
  tiled.has_permutation = parts_.shape.has_permutation;
  UploadTarget target;
  target.layout = tiled.layout;
  target.scale_type = header.scale_type;
  return OpenUploader(std::move(target));
}

absl::Status CudaWeightsBuilder::BeginDense() {
  DenseWeights& dense = parts_.dense;
  ASSIGN_OR_RETURN(dense.layout, DenseLayoutOf(parts_.shape));
  RETURN_IF_ERROR(TakeMemory(dense.layout.total_bytes));
  dense.memory = parts_.memory.data();
  dense.has_bias = parts_.shape.has_bias;
  return OpenUploader({});
}

absl::Status CudaWeightsBuilder::OpenUploader(UploadTarget target) {
  target.contexts =
      budget_.contexts != nullptr
          ? budget_.contexts
          : std::make_shared<UploadContextPool>(budget_.device_index);
  target.device_index = budget_.device_index;
  target.memory = parts_.memory.data();
  target.memory_bytes = parts_.memory.size_bytes();
  ASSIGN_OR_RETURN(uploader_, PanelUploader::Create(target));
  return absl::OkStatus();
}

absl::Status CudaWeightsBuilder::TakeMemory(int64_t bytes) {
  ASSIGN_OR_RETURN(CudaLayerMemory taken, cuda::TakeMemory(budget_, bytes));
  parts_.reservation = std::move(taken.reservation);
  parts_.memory = std::move(taken.memory);
  return absl::OkStatus();
}

absl::Status CudaWeightsBuilder::CopyVectors(const WeightsHeader& header) {
  if (parts_.shape.dense) {
    return uploader_->Copy(parts_.dense.layout.bias_offset,
                           BytesOf(header.bias));
  }
  const TileLayout& layout = parts_.tiled.layout;
  RETURN_IF_ERROR(uploader_->Copy(layout.bias_offset, BytesOf(header.bias)));
  RETURN_IF_ERROR(
      uploader_->Copy(layout.permutation_offset, BytesOf(header.permutation)));
  // Divided by a power of two, so that no entry exceeds 1.
  parts_.codebook = header.codebook;
  for (float& value : parts_.codebook) value *= parts_.tiled.zero_unit;
  return uploader_->Copy(layout.codebook_offset, BytesOf(parts_.codebook));
}

absl::Status CudaWeightsBuilder::WriteCodes(const CodePanel& panel) {
  CHECK(panel.row_begin >= 0 && panel.row_begin + panel.rows <= parts_.shape.n);
  CHECK(panel.k_begin >= 0 && panel.k_begin + panel.columns <= parts_.shape.k);
  CHECK_EQ(static_cast<int64_t>(panel.codes.size()),
           panel.rows * panel.columns);
  return uploader_->Scatter(PanelKind::kCodes,
                            {panel.row_begin, panel.rows, panel.k_begin,
                             panel.columns, 1, panel.codes.data()});
}

absl::Status CudaWeightsBuilder::WriteGroups(PanelKind kind,
                                             const GroupPanel& panel,
                                             int64_t element_bytes) {
  CHECK(panel.row_begin >= 0 && panel.row_begin + panel.rows <= parts_.shape.n);
  CHECK(panel.group_begin >= 0 &&
        panel.group_begin + panel.groups <= parts_.shape.groups_per_row());
  CHECK_EQ(static_cast<int64_t>(panel.bytes.size()),
           panel.rows * panel.groups * element_bytes);
  return uploader_->Scatter(
      kind, {panel.row_begin, panel.rows, panel.group_begin, panel.groups,
             element_bytes, panel.bytes.data()});
}

absl::Status CudaWeightsBuilder::WriteScales(const GroupPanel& panel) {
  return WriteGroups(PanelKind::kScales, panel,
                     SizeOf(parts_.shape.scale_type));
}

absl::Status CudaWeightsBuilder::WriteZeros(const GroupPanel& panel) {
  CHECK(parts_.shape.has_zeros);
  return WriteGroups(PanelKind::kZeros, panel, 1);
}

absl::Status CudaWeightsBuilder::WriteDense(const DensePanel& panel) {
  CHECK(parts_.shape.dense);
  CHECK(panel.row_begin >= 0 && panel.row_begin + panel.rows <= parts_.shape.n);
  const int64_t row_bytes = parts_.dense.layout.row_bytes();
  CHECK_EQ(static_cast<int64_t>(panel.bytes.size()), panel.rows * row_bytes);
  return uploader_->Copy(panel.row_begin * row_bytes, panel.bytes);
}

absl::Status CudaWeightsBuilder::SetTensorScale(float tensor_scale) {
  parts_.tiled.factor *= tensor_scale;
  return absl::OkStatus();
}

void CudaWeightsBuilder::LogKernelPaths(const CudaWeights& weights) const {
  const WeightsShape& shape = weights.shape();
  const std::string kind =
      shape.dense
          ? std::string(Name(shape.dense_type))
          : absl::StrCat(shape.bits, " bits, groups of ", shape.group_size);
  LOG(INFO) << "cuda: layer n=" << shape.n << " k=" << shape.k << " (" << kind
            << "): "
            << DescribeKernelPaths(weights.layer_shape(shape.has_bias),
                                   budget_.device, budget_.policy);
}

absl::StatusOr<std::shared_ptr<const ResidentWeights>>
CudaWeightsBuilder::Finish() {
  CHECK(uploader_ != nullptr) << "Finish comes once, after Begin";
  if (parts_.shape.dense) {
    RETURN_IF_ERROR(uploader_->Finish());
  } else {
    ASSIGN_OR_RETURN(parts_.tiled.largest_scale,
                     uploader_->FinishScales(parts_.tiled));
  }
  uploader_ = nullptr;
  if (budget_.kept != nullptr) {
    ASSIGN_OR_RETURN(parts_.checksum,
                     budget_.kept->Checksum(parts_.memory.data(),
                                            parts_.memory.size_bytes()));
  }
  auto weights = std::make_shared<const CudaWeights>(std::move(parts_));
  parts_ = CudaWeightsParts();
  LogKernelPaths(*weights);
  return weights;
}

}  // namespace qgemm::cuda
