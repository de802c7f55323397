// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cuda_kept_memory.h"

#include <cuda_runtime_api.h>

#include <string>

#include "absl/memory/memory.h"
#include "base/status_macros.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/layer_image.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/exported_memory.h"
#include "kernels/cuda/runtime/imported_memory.h"

namespace qgemm::cuda {
namespace {

// A hundred descriptors or so hold a GPU's memory.
constexpr int64_t kChunkBytes = int64_t{1} << 30;

// Both kinds of memory, which own what they map.
template <typename Memory>
class VmmChunk final : public ArenaChunk {
 public:
  VmmChunk(Memory memory, int descriptor)
      : memory_(std::move(memory)), descriptor_(descriptor) {}

  uint8_t* data() const override { return memory_.data(); }
  int64_t size_bytes() const override { return memory_.size_bytes(); }
  int descriptor() const override { return descriptor_; }

 private:
  const Memory memory_;
  const int descriptor_;
};

// Memory of another process; the holder has its descriptor.
struct AdoptedMemory {
  uint8_t* data() const { return mapped.data(); }
  int64_t size_bytes() const { return mapped.size_bytes(); }

  ImportedMemory mapped;
  FileDescriptor descriptor;
};

absl::StatusOr<std::unique_ptr<ArenaChunk>> MakeChunk(int device,
                                                      int64_t size_bytes) {
  RETURN_IF_ERROR(SetCurrentDevice(device));
  ASSIGN_OR_RETURN(ExportedMemory memory,
                   ExportedMemory::Allocate(device, size_bytes));
  const int descriptor = memory.descriptor();
  return std::make_unique<VmmChunk<ExportedMemory>>(std::move(memory),
                                                    descriptor);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKeptMemory>> CudaKeptMemory::Create(
    CudaKeptOptions options) {
  KeptDevice device;
  ASSIGN_OR_RETURN(device.uuid, UuidOf(options.device_index));
  int version = 0;
  RETURN_IF_ERROR(
      ToStatus(cudaDriverGetVersion(&version), "ask for the driver's version"));
  device.driver_version = static_cast<uint32_t>(version);
  auto memory =
      absl::WrapUnique(new CudaKeptMemory(std::move(options), device));
  MutexLock lock(&memory->mutex_);
  ASSIGN_OR_RETURN(memory->context_, NewUploadContext(/*slots=*/0));
  return memory;
}

CudaKeptMemory::CudaKeptMemory(CudaKeptOptions options, KeptDevice device)
    : options_(std::move(options)),
      device_(device),
      arena_(WeightsArena::Create(
          kChunkBytes, [index = options_.device_index](int64_t size_bytes) {
            return MakeChunk(index, size_bytes);
          })) {}

std::optional<KeptLayer> CudaKeptMemory::PlaceOf(
    const ResidentWeights& weights) const {
  const auto* const ours = dynamic_cast<const CudaWeights*>(&weights);
  if (ours == nullptr || ours->parts().memory.place().is_null()) {
    return std::nullopt;
  }
  const ArenaPlace& place = ours->parts().memory.place();
  return KeptLayer{
      {place.size_bytes(), ours->parts().checksum, DetailOf(ours->parts())},
      place.chunk(),
      place.offset_bytes()};
}

absl::Status CudaKeptMemory::Adopt(uint32_t chunk, int64_t size_bytes,
                                   FileDescriptor descriptor) {
  RETURN_IF_ERROR(SetCurrentDevice(options_.device_index));
  ASSIGN_OR_RETURN(ImportedMemory mapped,
                   ImportedMemory::Map(options_.device_index, descriptor.get(),
                                       size_bytes, device_.uuid));
  const int number = descriptor.get();
  return arena_->Adopt(
      chunk,
      std::make_unique<VmmChunk<AdoptedMemory>>(
          AdoptedMemory{std::move(mapped), std::move(descriptor)}, number));
}

absl::StatusOr<std::shared_ptr<const ResidentWeights>> CudaKeptMemory::Inherit(
    const KeptLayer& layer) {
  ASSIGN_OR_RETURN(CudaWeightsParts parts,
                   PartsOf(layer, options_.device, options_.limits));
  ASSIGN_OR_RETURN(parts.reservation,
                   options_.weights->Reserve(layer.size_bytes));
  ASSIGN_OR_RETURN(ArenaPlace place, arena_->Take(layer));
  SetMemory(LayerMemory<DeviceBuffer>(std::move(place)), &parts);
  ASSIGN_OR_RETURN(parts.checksum,
                   Checksum(parts.memory.data(), layer.size_bytes));
  if (parts.checksum != layer.checksum) {
    return absl::DataLossError("kept layer: its bytes have another checksum");
  }
  return std::make_shared<const CudaWeights>(std::move(parts));
}

absl::StatusOr<uint64_t> CudaKeptMemory::Checksum(const uint8_t* data,
                                                  int64_t size_bytes) {
  RETURN_IF_ERROR(SetCurrentDevice(options_.device_index));
  MutexLock lock(&mutex_);
  return ChecksumOf(*context_, data, size_bytes);
}

}  // namespace qgemm::cuda
