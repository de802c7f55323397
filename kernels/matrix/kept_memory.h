// SPDX-License-Identifier: Apache-2.0
//
// Memory of resident layers that outlives the process: chunks that are file
// descriptors, so that whoever has a copy of a descriptor keeps the chunk and
// all layers in it. Who that is, and which layers are there, is not decided
// here.

#ifndef QGEMM_KERNELS_MATRIX_KEPT_MEMORY_H_
#define QGEMM_KERNELS_MATRIX_KEPT_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/layer_images.h"

namespace qgemm {

// The device that has the memory. Memory of another one, or under another
// driver, is of no use.
struct KeptDevice {
  std::array<uint8_t, 16> uuid = {};  // zeros: the host
  uint32_t driver_version = 0;        // as CUDA counts them; 0: the host
};

// A layer's image, and the place of its bytes.
struct KeptLayer : LayerImage {
  uint32_t chunk = 0;  // its number
  int64_t offset_bytes = 0;
};

// Hears of chunks as they come and go, and of those that are there already.
// Functions run under a lock of the memory's, on any thread: they must not call
// it.
class ChunkWatcher {
 public:
  virtual ~ChunkWatcher() = default;

  // The descriptor is borrowed; no layer is in the chunk before this returns.
  virtual void ChunkMade(uint32_t chunk, int64_t size_bytes,
                         int descriptor) = 0;
  // No layer is in it any more.
  virtual void ChunkDropped(uint32_t chunk) = 0;
};

// Thread-safe. Lives as long as its backend.
class KeptMemory {
 public:
  virtual ~KeptMemory() = default;

  virtual KeptDevice device() const = 0;

  // The place of one of the backend's layers; nullopt if it is not in such
  // memory.
  virtual std::optional<KeptLayer> PlaceOf(
      const ResidentWeights& weights) const = 0;

  // Tells `watcher`, until it is replaced or null comes.
  virtual void Watch(ChunkWatcher* watcher) = 0;

  // Takes over a chunk of another process, which must not use it any more, by
  // its number there. Before any layer is built. Errors: INVALID_ARGUMENT (no
  // such memory of this device, of that size), ALREADY_EXISTS (the number).
  virtual absl::Status Adopt(uint32_t chunk, int64_t size_bytes,
                             FileDescriptor descriptor) = 0;

  // The layer that another process had in an adopted chunk, once its bytes have
  // been found to have that checksum. Errors: DATA_LOSS (they have not),
  // INVALID_ARGUMENT (no such place, taken already, or nothing that PlaceOf of
  // this build returns for such a device), RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::shared_ptr<const ResidentWeights>> Inherit(
      const KeptLayer& layer) = 0;

  // Gives up adopted chunks that no layer is in. Inherit comes no more.
  virtual void EndAdoption() = 0;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_MATRIX_KEPT_MEMORY_H_
