// SPDX-License-Identifier: Apache-2.0
//
// Slots go round: one is filled while those before it are on their way.

#include "kernels/cuda/cuda_images.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/status_macros.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/layer_image.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/upload_context.h"
#include "kernels/host/layer_detail.h"

namespace qgemm::cuda {
namespace {

absl::StatusOr<const CudaWeights*> OursOf(const ResidentWeights& weights) {
  const auto* const ours = dynamic_cast<const CudaWeights*>(&weights);
  if (ours != nullptr) return ours;
  return absl::InvalidArgumentError("image: not a layer of the cuda backend");
}

// A context of the pool's, which goes back when its stream has nothing to do.
class LentContext {
 public:
  static absl::StatusOr<LentContext> Take(
      std::shared_ptr<UploadContextPool> pool) {
    ASSIGN_OR_RETURN(auto context, pool->Take());
    return LentContext(std::move(pool), std::move(context));
  }
  LentContext(LentContext&&) = default;
  ~LentContext() {
    if (context_ == nullptr) return;
    const absl::Status status = context_->stream.Synchronize();
    if (status.ok()) {
      pool_->GiveBack(std::move(context_));
    } else {
      LOG(ERROR) << "drop a layer's image: " << status;
    }
  }

  UploadContext* operator->() const { return context_.get(); }
  UploadContext& operator*() const { return *context_; }

 private:
  LentContext(std::shared_ptr<UploadContextPool> pool,
              std::unique_ptr<UploadContext> context)
      : pool_(std::move(pool)), context_(std::move(context)) {}

  std::shared_ptr<UploadContextPool> pool_;
  std::unique_ptr<UploadContext> context_;
};

class CudaImageSink final : public ImageSink {
 public:
  CudaImageSink(int device_index, LentContext context, CudaWeightsParts parts,
                uint64_t checksum)
      : device_index_(device_index),
        parts_(std::move(parts)),
        checksum_(checksum),
        context_(std::move(context)) {}

  absl::StatusOr<absl::Span<uint8_t>> Next() override {
    RETURN_IF_ERROR(Send());
    lent_bytes_ =
        std::min(parts_.memory.size_bytes() - sent_bytes_, kUploadSlotBytes);
    if (lent_bytes_ == 0) return absl::Span<uint8_t>();
    UploadSlot& slot = context_->slots[current_];
    // An event that was never recorded counts as reached.
    RETURN_IF_ERROR(slot.done.Synchronize());
    return absl::MakeSpan(slot.host.data(), lent_bytes_);
  }

  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Finish() override {
    RETURN_IF_ERROR(SetCurrentDevice(device_index_));
    ASSIGN_OR_RETURN(parts_.checksum,
                     ChecksumOf(*context_, parts_.memory.data(),
                                parts_.memory.size_bytes()));
    if (parts_.checksum != checksum_) {
      return absl::DataLossError("image: its bytes have another checksum");
    }
    return std::make_shared<const CudaWeights>(std::move(parts_));
  }

 private:
  // Copies what the caller has filled.
  absl::Status Send() {
    if (lent_bytes_ == 0) return absl::OkStatus();
    RETURN_IF_ERROR(SetCurrentDevice(device_index_));
    UploadSlot& slot = context_->slots[current_];
    const cudaStream_t stream = context_->stream.get();
    RETURN_IF_ERROR(ToStatus(
        cudaMemcpyAsync(parts_.memory.data() + sent_bytes_, slot.host.data(),
                        lent_bytes_, cudaMemcpyHostToDevice, stream),
        "copy a layer's image to the device"));
    RETURN_IF_ERROR(slot.done.Record(stream));
    sent_bytes_ += lent_bytes_;
    lent_bytes_ = 0;
    current_ = (current_ + 1) % context_->slots.size();
    return absl::OkStatus();
  }

  const int device_index_;
  CudaWeightsParts parts_;
  const uint64_t checksum_;
  LentContext context_;  // goes, and waits for the device, before the memory
  size_t current_ = 0;
  int64_t lent_bytes_ = 0;  // of the current slot, which the caller fills
  int64_t sent_bytes_ = 0;
};

}  // namespace

absl::StatusOr<LayerImage> CudaImages::Describe(
    const ResidentWeights& weights) {
  ASSIGN_OR_RETURN(const CudaWeights* const ours, OursOf(weights));
  ASSIGN_OR_RETURN(const LentContext context,
                   LentContext::Take(budget_.contexts));
  const LayerMemory<DeviceBuffer>& memory = ours->parts().memory;
  LayerImage image;
  image.size_bytes = memory.size_bytes();
  ASSIGN_OR_RETURN(image.checksum,
                   ChecksumOf(*context, memory.data(), memory.size_bytes()));
  image.detail = DetailOf(ours->parts());
  return image;
}

absl::Status CudaImages::Copy(const ResidentWeights& weights,
                              int64_t offset_bytes, absl::Span<uint8_t> bytes) {
  ASSIGN_OR_RETURN(const CudaWeights* const ours, OursOf(weights));
  const LayerMemory<DeviceBuffer>& memory = ours->parts().memory;
  RETURN_IF_ERROR(CheckPart(offset_bytes, static_cast<int64_t>(bytes.size()),
                            memory.size_bytes()));
  ASSIGN_OR_RETURN(const LentContext context,
                   LentContext::Take(budget_.contexts));
  const PinnedBuffer& host = context->slots[0].host;
  const uint8_t* from = memory.data() + offset_bytes;
  while (!bytes.empty()) {
    const size_t size = std::min<size_t>(bytes.size(), host.size_bytes());
    RETURN_IF_ERROR(
        ToStatus(cudaMemcpyAsync(host.data(), from, size,
                                 cudaMemcpyDeviceToHost, context->stream.get()),
                 "copy a layer's image to the host"));
    RETURN_IF_ERROR(context->stream.Synchronize());
    std::memcpy(bytes.data(), host.data(), size);
    bytes.remove_prefix(size);
    from += size;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ImageSink>> CudaImages::NewSink(
    const LayerImage& image) {
  ASSIGN_OR_RETURN(CudaWeightsParts parts,
                   PartsOf(image, budget_.device, budget_.limits));
  ASSIGN_OR_RETURN(CudaLayerMemory taken,
                   TakeMemory(budget_, image.size_bytes));
  parts.reservation = std::move(taken.reservation);
  SetMemory(std::move(taken.memory), &parts);
  ASSIGN_OR_RETURN(LentContext context, LentContext::Take(budget_.contexts));
  return std::make_unique<CudaImageSink>(budget_.device_index,
                                         std::move(context), std::move(parts),
                                         image.checksum);
}

}  // namespace qgemm::cuda
