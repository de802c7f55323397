// SPDX-License-Identifier: Apache-2.0
//
// Brings panels of a layer to the device: gathers them in pinned slots,
// sends each full slot in one copy and scatters its panels there.

#ifndef QGEMM_KERNELS_CUDA_PANEL_UPLOADER_H_
#define QGEMM_KERNELS_CUDA_PANEL_UPLOADER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/launch/repack.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/layout/tiled_weights.h"
#include "kernels/cuda/upload_context.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

enum class PanelKind : uint8_t { kCodes, kScales, kZeros };
inline constexpr int kPanelKinds = 3;

// The target of an upload.
struct UploadTarget {
  std::shared_ptr<UploadContextPool> contexts;
  int device_index = 0;
  uint8_t* memory = nullptr;  // device; lives longer than the uploader
  int64_t memory_bytes = 0;
  TileLayout layout;  // of a quantized layer
  ScaleType scale_type = ScaleType::kFloat16;
};

// A rectangle of elements of `element_bytes`, row-major without gaps.
struct HostPanel {
  int64_t row_begin;
  int64_t rows;
  int64_t column_begin;
  int64_t columns;
  int64_t element_bytes;
  const uint8_t* bytes;
};

// Used by one thread at a time. A call blocks only while every slot is on its
// way; spans and panels are borrowed for the call. Destroying it waits for
// the device.
class PanelUploader {
 public:
  // Enqueues zeroing of the target's memory. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<PanelUploader>> Create(
      const UploadTarget& target);
  ~PanelUploader();

  // A panel of any size; panels and copies may come in any order.
  absl::Status Scatter(PanelKind kind, const HostPanel& panel);
  // Bytes for [offset, offset + bytes.size()) of the memory.
  absl::Status Copy(int64_t offset, absl::Span<const uint8_t> bytes);
  // Sends what is left, less than a slot, and waits until all is in place.
  absl::Status Finish();
  // The same for a quantized layer of that target; returns its largest scale,
  // as stored.
  absl::StatusOr<float> FinishScales(const TiledWeights& weights);

 private:
  // Bytes of a slot that go to the memory as they are.
  struct CopyRun {
    int64_t target_offset;
    int64_t slot_offset;
    int64_t size_bytes;
  };

  PanelUploader(const UploadTarget& target,
                std::unique_ptr<UploadContext> context)
      : target_(target), context_(std::move(context)) {}

  absl::Status ScatterPiece(PanelKind kind, const HostPanel& piece,
                            int64_t pitch_bytes);
  void AddCopy(const CopyRun& run);
  // Makes room for `bytes` and a panel's record at used_bytes_.
  absl::Status Reserve(int64_t bytes);
  absl::Status Flush();
  absl::Status SendPanels(UploadSlot& slot);
  absl::Status SendCopies(UploadSlot& slot);
  absl::Status Launch(PanelKind kind, const PanelBatch& batch);

  const UploadTarget target_;
  std::unique_ptr<UploadContext> context_;
  // The slot being filled.
  size_t current_ = 0;
  int64_t used_bytes_ = 0;
  std::array<std::vector<DevicePanel>, kPanelKinds> panels_;
  std::array<int64_t, kPanelKinds> units_{};
  std::vector<CopyRun> copies_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PANEL_UPLOADER_H_
