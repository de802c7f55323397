// SPDX-License-Identifier: Apache-2.0
//
// Layers in memory that outlives the server, as the manifest has them, and the
// descriptors that a holder has of both.

#ifndef QGEMM_SERVER_KEEP_KEPT_LAYERS_H_
#define QGEMM_SERVER_KEEP_KEPT_LAYERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/kept_memory.h"
#include "server/keep/descriptor_holder.h"
#include "server/keep/manifest.h"
#include "server/keep/manifest_memory.h"

namespace qgemm {

class ManifestSlots;

// A layer's record in the manifest, which counts until this goes: before the
// layer's memory does. Move-only; null: the layer does not outlive the server.
class KeptEntry {
 public:
  KeptEntry() = default;
  KeptEntry(std::shared_ptr<ManifestSlots> slots, int64_t slot)
      : slots_(std::move(slots)), slot_(slot) {}
  KeptEntry(KeptEntry&& other) noexcept { *this = std::move(other); }
  KeptEntry& operator=(KeptEntry&& other) noexcept {
    std::swap(slots_, other.slots_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~KeptEntry();

  bool is_null() const { return slots_ == nullptr; }

 private:
  std::shared_ptr<ManifestSlots> slots_;
  int64_t slot_ = 0;
};

// Thread-safe. Entries may outlive it.
class KeptLayers final : private ChunkWatcher {
 public:
  // Claims what the last server left, and takes over its chunks if its manifest
  // has such a header; else all of it is dropped, which is logged. `memory` and
  // `holder` must outlive it. The manifest has room for `max_layers`, and as
  // many that are about to leave. Errors: those of DescriptorHolder::Claim,
  // RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<KeptLayers>> Open(
      KeptMemory* memory, DescriptorHolder* holder,
      const Sha256Digest& layout_key, int64_t max_layers);
  ~KeptLayers() override;

  KeptMemory* memory() const { return memory_; }

  // Sound records of the last server. Once.
  std::vector<ManifestRecord> TakeRecords();
  // Drops what of the last server's was not entered anew. Once, before any
  // layer is built but by KeptMemory::Inherit.
  void EndInheritance();

  // Enters a layer, whose memory is complete. A null entry if it is not in kept
  // memory, or has no room in the manifest.
  KeptEntry Enter(const std::string& id, const std::string& spec,
                  const ResidentWeights& weights);

  // Changes nothing from here on, so that the next server finds what is there
  // now, whatever leaves memory before this process ends.
  void Freeze();

 private:
  KeptLayers(KeptMemory* memory, DescriptorHolder* holder)
      : memory_(memory), holder_(holder) {}

  // Takes over the manifest and the chunks; an error says why it cannot.
  absl::Status Adopt(const ManifestHeader& header,
                     std::vector<HeldDescriptor>* held);
  absl::Status Begin(const ManifestHeader& header, int64_t max_layers);
  void Drop(const std::string& name);

  void ChunkMade(uint32_t chunk, int64_t size_bytes, int descriptor) override;
  void ChunkDropped(uint32_t chunk) override;

  KeptMemory* const memory_;
  DescriptorHolder* const holder_;
  std::shared_ptr<ManifestSlots> slots_;
  std::vector<int64_t> old_slots_;  // of the last server's records
  Mutex mutex_;
  std::map<uint32_t, std::string> chunk_names_ ABSL_GUARDED_BY(mutex_);
  bool is_frozen_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_KEPT_LAYERS_H_
