// SPDX-License-Identifier: Apache-2.0

#include "server/weights/layer_scrubber.h"

#include "base/log.h"

namespace qgemm {
namespace {

// Pauses are of some milliseconds at least.
constexpr int64_t kPacedBytes = int64_t{4} << 20;

}  // namespace

LayerScrubber::LayerScrubber(WeightStore* store, LayerLoader* loader,
                             const LayerScrubberOptions& options)
    : store_(store), loader_(loader), options_(options) {}

void LayerScrubber::Run() {
  while (loader_->loading().all > 0) {
    if (!thread_.Wait(options_.poll)) return;
  }
  do {
    for (const std::string& id : HeldIds()) {
      Scrub(id);
      if (!thread_.Wait(absl::ZeroDuration())) return;
    }
  } while (thread_.Wait(options_.interval));
}

// No records: they would keep memory that is to leave.
std::vector<std::string> LayerScrubber::HeldIds() const {
  std::vector<std::string> ids;
  for (const auto& layer : store_->layers()) ids.push_back(layer->id);
  return ids;
}

void LayerScrubber::Scrub(const std::string& id) {
  absl::StatusOr<WeightsFileReader> reader = store_->state()->Read(id);
  absl::Status status = reader.status();
  if (status.ok()) {
    status = reader->Verify([this](int64_t bytes) { return Pace(bytes); });
  }
  if (absl::IsDataLoss(status)) {
    loader_->Forget(id, status);
  } else if (!status.ok() && !absl::IsCancelled(status) &&
             !absl::IsNotFound(status)) {  // it was unloaded
    EVENT(WARNING, "layer_not_verified")
        .With("id", id)
        .With("error", status.message());
  }
}

absl::Status LayerScrubber::Pace(int64_t bytes) {
  if (store_->metrics() != nullptr) store_->metrics()->AddVerifiedBytes(bytes);
  unpaced_bytes_ += bytes;
  if (unpaced_bytes_ < kPacedBytes) return absl::OkStatus();
  const absl::Duration pause = absl::Seconds(1) *
                               static_cast<double>(unpaced_bytes_) /
                               static_cast<double>(options_.bytes_per_second);
  unpaced_bytes_ = 0;
  return thread_.Wait(pause) ? absl::OkStatus()
                             : absl::CancelledError("the server stops");
}

}  // namespace qgemm
