// SPDX-License-Identifier: Apache-2.0

#include "server/weights/image_keeper.h"

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "kernels/matrix/layer_images.h"
#include "server/storage/image_files.h"
#include "server/storage/state_directory.h"

namespace qgemm {

ImageKeeper::ImageKeeper(Backend* backend, WeightStore* store,
                         const LayerLoader* loader,
                         const ImageKeeperOptions& options)
    : backend_(backend), store_(store), loader_(loader), options_(options) {}

void ImageKeeper::Run() {
  int64_t seen_arrivals = -1;
  while (thread_.Wait(options_.poll)) {
    const int64_t arrivals = store_->arrivals();
    if (arrivals == seen_arrivals || loader_->loading().all > 0) continue;
    seen_arrivals = arrivals;
    KeepAll();
  }
}

// Ids, not records, which would keep memory that is to leave.
void ImageKeeper::KeepAll() {
  std::vector<std::string> ids;
  const ImageFiles* const images = store_->state()->images();
  for (const auto& layer : store_->layers()) {
    if (layer->resident != nullptr && !images->Has(layer->id)) {
      ids.push_back(layer->id);
    }
  }
  int64_t without_room = 0;
  for (const std::string& id : ids) {
    const absl::Status kept = Keep(id);
    if (absl::IsCancelled(kept)) return;
    if (absl::IsResourceExhausted(kept)) {
      ++without_room;
    } else if (!kept.ok()) {
      EVENT(WARNING, "image_not_kept")
          .With("id", id)
          .With("error", kept.message());
    }
  }
  if (!ids.empty()) {
    EVENT(INFO, "images_kept")
        .With("images", images->file_count())
        .With("bytes", images->used_bytes())
        .With("layers_without_room", without_room);
  }
}

absl::Status ImageKeeper::Keep(const std::string& id) {
  const auto found = store_->Find(kAnybody, id);
  if (!found.ok() || (*found)->resident == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(AwaitQuiet());
  const std::shared_ptr<const ResidentWeights> layer = (*found)->resident;
  LayerImages* const memory = backend_->images();
  ASSIGN_OR_RETURN(const LayerImage image, memory->Describe(*layer));
  StateDirectory* const state = store_->state();
  RETURN_IF_ERROR(state->images()->Write(
      id, image,
      [&](int64_t offset, absl::Span<uint8_t> bytes) -> absl::Status {
        RETURN_IF_ERROR(AwaitQuiet());
        return memory->Copy(*layer, offset, bytes);
      }));
  // It may have been unloaded meanwhile.
  if (!state->Has(id)) state->images()->Remove(id);
  return absl::OkStatus();
}

absl::Status ImageKeeper::AwaitQuiet() {
  const StateDirectory& state = *store_->state();
  while (true) {
    const int64_t uploaded_bytes = state.uploaded_bytes();
    const bool is_quiet = uploaded_bytes == uploaded_bytes_;
    uploaded_bytes_ = uploaded_bytes;
    if (!thread_.Wait(is_quiet ? absl::ZeroDuration() : options_.quiet)) {
      return absl::CancelledError("the server stops");
    }
    if (is_quiet) return absl::OkStatus();
  }
}

}  // namespace qgemm
