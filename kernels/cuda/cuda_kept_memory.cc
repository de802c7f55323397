// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cuda_kept_memory.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status_macros.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/launch/checksum.h"
#include "kernels/cuda/plan/tile_plan.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/exported_memory.h"
#include "kernels/cuda/runtime/imported_memory.h"
#include "kernels/host/batch_checks.h"
#include "kernels/host/layer_detail.h"

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

// All that kernels read a layer by: of another layout it would be garbage.
std::string LayoutBytes(const CudaWeightsParts& parts) {
  std::string bytes;
  const auto append = [&bytes](std::initializer_list<int64_t> values) {
    for (const int64_t value : values) AppendInteger<int64_t>(value, &bytes);
  };
  if (parts.shape.dense) {
    const DenseLayout& dense = parts.dense.layout;
    append({dense.n, dense.k, static_cast<int64_t>(dense.type),
            dense.bias_offset, dense.total_bytes});
    return bytes;
  }
  const TileLayout& tiles = parts.tiled.layout;
  append({tiles.n,
          tiles.k,
          tiles.bits,
          tiles.codes,
          static_cast<int64_t>(tiles.scale_kind),
          tiles.groups,
          tiles.has_zeros ? 1 : 0,
          tiles.tile_config.n_tiles,
          tiles.tile_config.split_k,
          tiles.tile_config.k_warps,
          tiles.tile_config.n_blocks,
          tiles.k_tiles,
          tiles.block_bytes,
          tiles.has_decode_kernel ? 1 : 0,
          tiles.code_bytes,
          tiles.scale_bytes,
          tiles.zero_bytes,
          tiles.row_scales_offset,
          tiles.bias_offset,
          tiles.permutation_offset,
          tiles.codebook_offset,
          tiles.total_bytes});
  return bytes;
}

std::string DetailOf(const CudaWeightsParts& parts) {
  std::string detail;
  AppendShape(parts.shape, &detail);
  AppendBytesOf(parts.tiled.factor, &detail);
  AppendBytesOf(parts.tiled.zero_unit, &detail);
  AppendBytesOf(parts.largest_scale, &detail);
  AppendInteger<uint32_t>(static_cast<uint32_t>(parts.codebook.size()),
                          &detail);
  for (const float value : parts.codebook) AppendBytesOf(value, &detail);
  return detail + LayoutBytes(parts);
}

// The parts of a layer of that detail, without memory.
absl::StatusOr<CudaWeightsParts> PartsOf(const std::string& detail,
                                         const DeviceTraits& device) {
  FieldReader reader(detail);
  CudaWeightsParts parts;
  parts.shape = ReadShape(&reader);
  parts.tiled.factor = ReadBytesOf<float>(&reader);
  parts.tiled.zero_unit = ReadBytesOf<float>(&reader);
  parts.largest_scale = ReadBytesOf<float>(&reader);
  const uint32_t entries = reader.Read<uint32_t>();
  for (uint32_t i = 0; i < entries && reader.ok(); ++i) {
    parts.codebook.push_back(ReadBytesOf<float>(&reader));
  }
  if (!reader.ok()) {
    return absl::InvalidArgumentError(
        "not a layer's detail of the cuda backend");
  }
  if (parts.shape.dense) {
    ASSIGN_OR_RETURN(parts.dense.layout, DenseLayoutOf(parts.shape));
  } else {
    ASSIGN_OR_RETURN(parts.tiled.layout, PlanTileLayout(parts.shape, device));
    parts.decode_kernel_max_m = DecodeKernelMaxM(parts.tiled.layout, device);
  }
  if (DetailOf(parts) != detail) {
    return absl::InvalidArgumentError(
        "a kept layer has another layout than this build makes");
  }
  return parts;
}

void SetMemory(ArenaPlace place, CudaWeightsParts* parts) {
  parts->memory = LayerMemory<DeviceBuffer>(std::move(place));
  parts->dense.memory = parts->memory.data();
  parts->dense.has_bias = parts->shape.has_bias;
  parts->tiled.memory = parts->memory.data();
  parts->tiled.has_bias = parts->shape.has_bias;
  parts->tiled.has_permutation = parts->shape.has_permutation;
}

int64_t BytesOf(const CudaWeightsParts& parts) {
  return parts.shape.dense ? parts.dense.layout.total_bytes
                           : parts.tiled.layout.total_bytes;
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
  ASSIGN_OR_RETURN(memory->stream_, Stream::Create());
  ASSIGN_OR_RETURN(memory->sum_, DeviceBuffer::Allocate(sizeof(uint64_t)));
  ASSIGN_OR_RETURN(memory->sum_on_host_,
                   PinnedBuffer::Allocate(sizeof(uint64_t)));
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
  return KeptLayer{place.chunk(), place.offset_bytes(), place.size_bytes(),
                   ours->parts().checksum, DetailOf(ours->parts())};
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
                   PartsOf(layer.detail, options_.device));
  RETURN_IF_ERROR(CheckLayerLimits(parts.shape, options_.limits));
  if (BytesOf(parts) != layer.size_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("kept layer of ", layer.size_bytes,
                     " bytes, of a shape that takes ", BytesOf(parts)));
  }
  ASSIGN_OR_RETURN(parts.reservation,
                   options_.weights->Reserve(layer.size_bytes));
  ASSIGN_OR_RETURN(ArenaPlace place, arena_->Take(layer));
  SetMemory(std::move(place), &parts);
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
  auto* const sum = reinterpret_cast<uint64_t*>(sum_.data());
  RETURN_IF_ERROR(ToStatus(LaunchChecksum(data, size_bytes, sum, stream_.get()),
                           "sum a layer's bytes up"));
  RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(sum_on_host_.data(), sum, sizeof(*sum),
                               cudaMemcpyDeviceToHost, stream_.get()),
               "copy a layer's checksum"));
  RETURN_IF_ERROR(stream_.Synchronize());
  uint64_t checksum = 0;
  std::memcpy(&checksum, sum_on_host_.data(), sizeof(checksum));
  return checksum;
}

}  // namespace qgemm::cuda
