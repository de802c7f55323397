// SPDX-License-Identifier: Apache-2.0
//
// Slots go round: one is filled while those before it are on their way.

#include "kernels/cuda/panel_uploader.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/repack.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device.h"

namespace qgemm::cuda {
namespace {

// A panel is cut into pieces of at most so much, so that little of a slot
// stays empty.
constexpr int64_t kPieceBytes = kUploadSlotBytes / 4;
constexpr int64_t kAlignment = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<PanelUploader>> PanelUploader::Create(
    const UploadTarget& target) {
  ASSIGN_OR_RETURN(std::unique_ptr<UploadContext> context,
                   target.contexts->Take());
  std::unique_ptr<PanelUploader> uploader(
      new PanelUploader(target, std::move(context)));
  RETURN_IF_ERROR(
      ToStatus(cudaMemsetAsync(target.memory, 0, target.memory_bytes,
                               uploader->context_->stream.get()),
               "zero a layer's memory"));
  return uploader;
}

PanelUploader::~PanelUploader() {
  const absl::Status status = context_->stream.Synchronize();
  if (status.ok()) {
    target_.contexts->GiveBack(std::move(context_));
  } else {
    LOG(ERROR) << "drop a layer's upload: " << status;
  }
}

absl::Status PanelUploader::Scatter(PanelKind kind, const HostPanel& panel) {
  if (panel.rows == 0 || panel.columns == 0) return absl::OkStatus();
  const int64_t piece_elements = kPieceBytes / panel.element_bytes;
  // Whole tiles where a panel is cut along its rows' length.
  const int64_t piece_columns =
      std::min(panel.columns, piece_elements / kTileColumns * kTileColumns);
  const int64_t piece_rows =
      std::max<int64_t>(1, piece_elements / piece_columns);
  const int64_t pitch_bytes = panel.columns * panel.element_bytes;
  for (int64_t row = 0; row < panel.rows; row += piece_rows) {
    for (int64_t column = 0; column < panel.columns; column += piece_columns) {
      const HostPanel piece = {
          panel.row_begin + row,
          std::min(piece_rows, panel.rows - row),
          panel.column_begin + column,
          std::min(piece_columns, panel.columns - column),
          panel.element_bytes,
          panel.bytes + row * pitch_bytes + column * panel.element_bytes};
      RETURN_IF_ERROR(ScatterPiece(kind, piece, pitch_bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status PanelUploader::ScatterPiece(PanelKind kind, const HostPanel& piece,
                                         int64_t pitch_bytes) {
  const int64_t row_bytes = piece.columns * piece.element_bytes;
  RETURN_IF_ERROR(Reserve(piece.rows * row_bytes));
  uint8_t* to = context_->slots[current_].host.data() + used_bytes_;
  if (row_bytes == pitch_bytes) {
    std::memcpy(to, piece.bytes, piece.rows * row_bytes);
  } else {
    for (int64_t row = 0; row < piece.rows; ++row) {
      std::memcpy(to + row * row_bytes, piece.bytes + row * pitch_bytes,
                  row_bytes);
    }
  }
  const int index = static_cast<int>(kind);
  const DevicePanel panel = {piece.row_begin, piece.rows,  piece.column_begin,
                             piece.columns,   used_bytes_, units_[index]};
  units_[index] += kind == PanelKind::kCodes ? CodeUnits(panel)
                   : kind == PanelKind::kScales
                       ? ScaleUnits(panel)
                       : ZeroUnits(target_.layout, panel);
  panels_[index].push_back(panel);
  used_bytes_ += RoundUp(piece.rows * row_bytes, kAlignment);
  return absl::OkStatus();
}

absl::Status PanelUploader::Copy(int64_t offset,
                                 absl::Span<const uint8_t> bytes) {
  CHECK(offset >= 0 &&
        offset + static_cast<int64_t>(bytes.size()) <= target_.memory_bytes);
  while (!bytes.empty()) {
    const int64_t size =
        std::min<int64_t>(kPieceBytes, static_cast<int64_t>(bytes.size()));
    RETURN_IF_ERROR(Reserve(size));
    std::memcpy(context_->slots[current_].host.data() + used_bytes_,
                bytes.data(), size);
    AddCopy({offset, used_bytes_, size});
    used_bytes_ += RoundUp(size, kAlignment);
    offset += size;
    bytes.remove_prefix(size);
  }
  return absl::OkStatus();
}

void PanelUploader::AddCopy(const CopyRun& run) {
  if (!copies_.empty()) {
    CopyRun& last = copies_.back();
    if (last.target_offset + last.size_bytes == run.target_offset &&
        last.slot_offset + last.size_bytes == run.slot_offset) {
      last.size_bytes += run.size_bytes;
      return;
    }
  }
  copies_.push_back(run);
}

absl::Status PanelUploader::Reserve(int64_t bytes) {
  int64_t records = 1;
  for (const std::vector<DevicePanel>& panels : panels_) {
    records += static_cast<int64_t>(panels.size());
  }
  const int64_t record_bytes =
      records * static_cast<int64_t>(sizeof(DevicePanel)) + kAlignment;
  const int64_t needed =
      used_bytes_ + RoundUp(bytes, kAlignment) + record_bytes;
  if (needed > kUploadSlotBytes) RETURN_IF_ERROR(Flush());
  // An event that was never recorded counts as reached.
  if (used_bytes_ == 0) return context_->slots[current_].done.Synchronize();
  return absl::OkStatus();
}

absl::Status PanelUploader::Flush() {
  if (used_bytes_ == 0) return absl::OkStatus();
  RETURN_IF_ERROR(SetCurrentDevice(target_.device_index));
  UploadSlot& slot = context_->slots[current_];
  RETURN_IF_ERROR(SendPanels(slot));
  RETURN_IF_ERROR(SendCopies(slot));
  RETURN_IF_ERROR(slot.done.Record(context_->stream.get()));
  for (std::vector<DevicePanel>& panels : panels_) panels.clear();
  units_ = {};
  copies_.clear();
  used_bytes_ = 0;
  current_ = (current_ + 1) % context_->slots.size();
  return absl::OkStatus();
}

absl::Status PanelUploader::SendPanels(UploadSlot& slot) {
  std::array<int64_t, kPanelKinds> records;
  int64_t end = used_bytes_;
  for (int kind = 0; kind < kPanelKinds; ++kind) {
    const int64_t size =
        static_cast<int64_t>(panels_[kind].size() * sizeof(DevicePanel));
    if (size > 0) {
      std::memcpy(slot.host.data() + end, panels_[kind].data(), size);
    }
    records[kind] = end;
    end += size;
  }
  CHECK_LE(end, kUploadSlotBytes);
  if (end == used_bytes_) return absl::OkStatus();
  RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(slot.device.data(), slot.host.data(), end,
                               cudaMemcpyHostToDevice, context_->stream.get()),
               "copy panels to the device"));
  for (int kind = 0; kind < kPanelKinds; ++kind) {
    PanelBatch batch;
    batch.panels = reinterpret_cast<const DevicePanel*>(slot.device.data() +
                                                        records[kind]);
    batch.count = static_cast<int64_t>(panels_[kind].size());
    batch.units = units_[kind];
    batch.bytes = slot.device.data();
    if (batch.count == 0) continue;
    RETURN_IF_ERROR(Launch(static_cast<PanelKind>(kind), batch));
  }
  return absl::OkStatus();
}

absl::Status PanelUploader::Launch(PanelKind kind, const PanelBatch& batch) {
  const TileLayout& layout = target_.layout;
  switch (kind) {
    case PanelKind::kCodes:
      return ToStatus(LaunchScatterCodes(layout, batch, target_.memory,
                                         context_->stream.get()),
                      "scatter codes into tiles");
    case PanelKind::kScales:
      return ToStatus(
          LaunchScatterScales(layout, batch, target_.scale_type, target_.memory,
                              context_->stream.get()),
          "scatter scales into tiles");
    case PanelKind::kZeros:
      return ToStatus(LaunchScatterZeros(layout, batch, target_.memory,
                                         context_->stream.get()),
                      "scatter zeros into tiles");
  }
  return absl::InternalError("scatter: no such kind of panel");
}

absl::Status PanelUploader::SendCopies(UploadSlot& slot) {
  for (const CopyRun& run : copies_) {
    RETURN_IF_ERROR(ToStatus(
        cudaMemcpyAsync(target_.memory + run.target_offset,
                        slot.host.data() + run.slot_offset, run.size_bytes,
                        cudaMemcpyHostToDevice, context_->stream.get()),
        "copy a layer's bytes to the device"));
  }
  return absl::OkStatus();
}

absl::Status PanelUploader::Finish() {
  RETURN_IF_ERROR(Flush());
  return context_->stream.Synchronize();
}

absl::StatusOr<float> PanelUploader::FinishScales(const TiledWeights& weights) {
  RETURN_IF_ERROR(Flush());
  float* const largest =
      reinterpret_cast<float*>(context_->device_value.data());
  uint8_t* const on_host = context_->host_value.data();
  const cudaStream_t stream = context_->stream.get();
  RETURN_IF_ERROR(ToStatus(LaunchLargestScale(weights, largest, stream),
                           "find the largest scale"));
  RETURN_IF_ERROR(ToStatus(cudaMemcpyAsync(on_host, largest, sizeof(float),
                                           cudaMemcpyDeviceToHost, stream),
                           "copy the largest scale"));
  RETURN_IF_ERROR(context_->stream.Synchronize());
  float scale;
  std::memcpy(&scale, on_host, sizeof(scale));
  return scale;
}

}  // namespace qgemm::cuda
