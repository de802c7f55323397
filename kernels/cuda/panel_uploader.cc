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
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device_info.h"

namespace qgemm::cuda {
namespace {

constexpr int kSlots = 3;
// Large enough that a copy runs at the bus's rate, small enough that taking
// page-locked memory does not cost more than a small layer's upload.
constexpr int64_t kMaxSlotBytes = int64_t{4} << 20;
constexpr int64_t kMinSlotBytes = int64_t{64} << 10;
// A panel is cut into pieces of at most this part of a slot, so that little
// of a slot stays empty.
constexpr int64_t kPiecesPerSlot = 4;
constexpr int64_t kAlignment = 16;

int64_t SlotBytes(const UploadTarget& target) {
  const int64_t wanted = RoundUp(target.memory_bytes, kAlignment);
  return std::min(kMaxSlotBytes, std::max(kMinSlotBytes, wanted));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PanelUploader>> PanelUploader::Create(
    const UploadTarget& target) {
  RETURN_IF_ERROR(SetCurrentDevice(target.device_index));
  std::unique_ptr<PanelUploader> uploader(new PanelUploader(target));
  RETURN_IF_ERROR(uploader->AddSlots());
  RETURN_IF_ERROR(
      ToStatus(cudaMemsetAsync(target.memory, 0, target.memory_bytes,
                               uploader->stream_.get()),
               "zero a layer's memory"));
  return uploader;
}

absl::Status PanelUploader::AddSlots() {
  ASSIGN_OR_RETURN(stream_, Stream::Create());
  slot_bytes_ = SlotBytes(target_);
  for (int i = 0; i < kSlots; ++i) {
    Slot slot;
    ASSIGN_OR_RETURN(slot.host, PinnedBuffer::Allocate(slot_bytes_));
    ASSIGN_OR_RETURN(slot.device, DeviceBuffer::Allocate(slot_bytes_));
    ASSIGN_OR_RETURN(slot.done, Event::Create(EventKind::kOrdering));
    slots_.push_back(std::move(slot));
  }
  return absl::OkStatus();
}

PanelUploader::~PanelUploader() {
  if (stream_.get() == nullptr) return;
  const absl::Status status = stream_.Synchronize();
  if (!status.ok()) LOG(ERROR) << "drop a layer's upload: " << status;
}

absl::Status PanelUploader::Scatter(PanelKind kind, const HostPanel& panel) {
  if (panel.rows == 0 || panel.columns == 0) return absl::OkStatus();
  const int64_t piece_elements =
      slot_bytes_ / kPiecesPerSlot / panel.element_bytes;
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
  uint8_t* to = slots_[current_].host.data() + used_bytes_;
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
  const int64_t piece_bytes = slot_bytes_ / kPiecesPerSlot;
  while (!bytes.empty()) {
    const int64_t size =
        std::min<int64_t>(piece_bytes, static_cast<int64_t>(bytes.size()));
    RETURN_IF_ERROR(Reserve(size));
    std::memcpy(slots_[current_].host.data() + used_bytes_, bytes.data(), size);
    copies_.push_back({offset, used_bytes_, size});
    used_bytes_ += RoundUp(size, kAlignment);
    offset += size;
    bytes.remove_prefix(size);
  }
  return absl::OkStatus();
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
  if (needed > slot_bytes_) RETURN_IF_ERROR(Flush());
  // An event that was never recorded counts as reached.
  if (used_bytes_ == 0) return slots_[current_].done.Synchronize();
  return absl::OkStatus();
}

absl::Status PanelUploader::Flush() {
  if (used_bytes_ == 0) return absl::OkStatus();
  RETURN_IF_ERROR(SetCurrentDevice(target_.device_index));
  Slot& slot = slots_[current_];
  RETURN_IF_ERROR(SendPanels(slot));
  RETURN_IF_ERROR(SendCopies(slot));
  RETURN_IF_ERROR(slot.done.Record(stream_.get()));
  for (std::vector<DevicePanel>& panels : panels_) panels.clear();
  units_ = {};
  copies_.clear();
  used_bytes_ = 0;
  current_ = (current_ + 1) % slots_.size();
  return absl::OkStatus();
}

absl::Status PanelUploader::SendPanels(Slot& slot) {
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
  CHECK_LE(end, slot_bytes_);
  if (end == used_bytes_) return absl::OkStatus();
  RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(slot.device.data(), slot.host.data(), end,
                               cudaMemcpyHostToDevice, stream_.get()),
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
      return ToStatus(
          LaunchScatterCodes(layout, batch, target_.memory, stream_.get()),
          "scatter codes into tiles");
    case PanelKind::kScales:
      return ToStatus(LaunchScatterScales(layout, batch, target_.scale_type,
                                          target_.memory, stream_.get()),
                      "scatter scales into tiles");
    case PanelKind::kZeros:
      return ToStatus(
          LaunchScatterZeros(layout, batch, target_.memory, stream_.get()),
          "scatter zeros into tiles");
  }
  return absl::InternalError("scatter: no such kind of panel");
}

absl::Status PanelUploader::SendCopies(Slot& slot) {
  for (const CopyRun& run : copies_) {
    RETURN_IF_ERROR(ToStatus(
        cudaMemcpyAsync(target_.memory + run.target_offset,
                        slot.host.data() + run.slot_offset, run.size_bytes,
                        cudaMemcpyHostToDevice, stream_.get()),
        "copy a layer's bytes to the device"));
  }
  return absl::OkStatus();
}

absl::Status PanelUploader::Finish() {
  RETURN_IF_ERROR(Flush());
  return stream_.Synchronize();
}

}  // namespace qgemm::cuda
