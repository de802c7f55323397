// SPDX-License-Identifier: Apache-2.0
//
// Descriptors have names by which the next server knows them. The manifest is
// stored before any chunk, and a chunk before any record of a layer in it.

#include "server/keep/kept_layers.h"

#include <limits>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/keep/manifest_slots.h"

namespace qgemm {
namespace {

constexpr char kManifestName[] = "qgemm.manifest";
constexpr char kChunkPrefix[] = "qgemm.chunk.";

std::string ChunkName(uint32_t chunk, int64_t size_bytes) {
  return absl::StrCat(kChunkPrefix, chunk, ".", size_bytes);
}

struct NamedChunk {
  uint32_t number = 0;
  int64_t size_bytes = 0;
};

std::optional<NamedChunk> ParseChunkName(absl::string_view name) {
  absl::string_view rest = name;
  NamedChunk chunk;
  if (!absl::ConsumePrefix(&rest, kChunkPrefix)) return std::nullopt;
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '.');
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &chunk.number) ||
      !absl::SimpleAtoi(parts[1], &chunk.size_bytes) || chunk.size_bytes <= 0 ||
      ChunkName(chunk.number, chunk.size_bytes) != name) {
    return std::nullopt;
  }
  return chunk;
}

}  // namespace

KeptEntry::~KeptEntry() {
  if (slots_ != nullptr) slots_->Clear(slot_);
}

absl::StatusOr<std::unique_ptr<KeptLayers>> KeptLayers::Open(
    KeptMemory* memory, DescriptorHolder* holder,
    const Sha256Digest& layout_key, int64_t max_layers) {
  ASSIGN_OR_RETURN(std::vector<HeldDescriptor> held, holder->Claim());
  const ManifestHeader header = {memory->device(), layout_key};
  auto kept = absl::WrapUnique(new KeptLayers(memory, holder));
  const absl::Status adopted = held.empty() ? absl::NotFoundError("nothing")
                                            : kept->Adopt(header, &held);
  if (!adopted.ok()) {
    for (const HeldDescriptor& each : held) kept->Drop(each.name);
    if (!held.empty()) {
      EVENT(WARNING, "memory_not_inherited")
          .With("descriptors", held.size())
          .With("difference", adopted.message());
    }
    held.clear();
    RETURN_IF_ERROR(kept->Begin(header, max_layers));
  }
  memory->Watch(kept.get());
  return kept;
}

KeptLayers::~KeptLayers() { memory_->Watch(nullptr); }

absl::Status KeptLayers::Adopt(const ManifestHeader& header,
                               std::vector<HeldDescriptor>* held) {
  std::unique_ptr<ManifestMemory> manifest;
  for (HeldDescriptor& each : *held) {
    if (each.name != kManifestName || manifest != nullptr) continue;
    ASSIGN_OR_RETURN(manifest,
                     ManifestMemory::Open(std::move(each.descriptor)));
  }
  if (manifest == nullptr) {
    return absl::InvalidArgumentError("no manifest among them");
  }
  const std::string difference = DifferenceOf(manifest->Read(0), header);
  if (!difference.empty()) return absl::InvalidArgumentError(difference);
  old_slots_ = manifest->UsedSlots();
  slots_ = std::make_shared<ManifestSlots>(std::move(manifest), old_slots_);
  for (HeldDescriptor& each : *held) {
    if (each.name == kManifestName) continue;
    const std::optional<NamedChunk> chunk = ParseChunkName(each.name);
    const absl::Status adopted =
        chunk.has_value() ? memory_->Adopt(chunk->number, chunk->size_bytes,
                                           std::move(each.descriptor))
                          : absl::InvalidArgumentError("a name of no chunk");
    if (!adopted.ok()) {
      LOG(WARNING) << "kept memory: \"" << each.name
                   << "\" is dropped: " << adopted.message();
      Drop(each.name);
      continue;
    }
    MutexLock lock(&mutex_);
    chunk_names_[chunk->number] = each.name;
  }
  return absl::OkStatus();
}

absl::Status KeptLayers::Begin(const ManifestHeader& header,
                               int64_t max_layers) {
  ASSIGN_OR_RETURN(
      auto manifest,
      ManifestMemory::Create(EncodeManifestHeader(header), 2 * max_layers));
  RETURN_IF_ERROR(holder_->Store(kManifestName, manifest->descriptor()));
  slots_ = std::make_shared<ManifestSlots>(std::move(manifest),
                                           std::vector<int64_t>());
  return absl::OkStatus();
}

std::vector<ManifestRecord> KeptLayers::TakeRecords() {
  std::vector<ManifestRecord> records;
  for (const int64_t slot : old_slots_) {
    std::optional<ManifestRecord> record =
        DecodeManifestRecord(slots_->memory().Read(slot));
    if (record.has_value()) records.push_back(*std::move(record));
  }
  return records;
}

void KeptLayers::EndInheritance() {
  for (const int64_t slot : old_slots_) slots_->Clear(slot);
  old_slots_.clear();
  memory_->EndAdoption();
}

KeptEntry KeptLayers::Enter(const std::string& id, const std::string& spec,
                            const ResidentWeights& weights) {
  std::optional<KeptLayer> layer = memory_->PlaceOf(weights);
  if (!layer.has_value()) return KeptEntry();
  const std::optional<std::string> record =
      EncodeManifestRecord({id, spec, *std::move(layer)});
  if (!record.has_value()) return KeptEntry();
  const std::optional<int64_t> slot = slots_->Write(*record);
  return slot.has_value() ? KeptEntry(slots_, *slot) : KeptEntry();
}

void KeptLayers::Freeze() {
  slots_->Freeze();
  MutexLock lock(&mutex_);
  is_frozen_ = true;
}

void KeptLayers::Drop(const std::string& name) {
  const absl::Status dropped = holder_->Drop(name);
  if (!dropped.ok()) {
    LOG(WARNING) << "kept memory: drop \"" << name
                 << "\": " << dropped.message();
  }
}

void KeptLayers::ChunkMade(uint32_t chunk, int64_t size_bytes, int descriptor) {
  MutexLock lock(&mutex_);
  if (is_frozen_) return;
  std::string& name = chunk_names_[chunk];
  name = ChunkName(chunk, size_bytes);
  const absl::Status stored = holder_->Store(name, descriptor);
  if (!stored.ok()) {
    LOG(WARNING) << "kept memory: \"" << name
                 << "\" does not outlive the server: " << stored.message();
  }
}

void KeptLayers::ChunkDropped(uint32_t chunk) {
  MutexLock lock(&mutex_);
  const auto name = chunk_names_.find(chunk);
  if (is_frozen_ || name == chunk_names_.end()) return;
  Drop(name->second);
  chunk_names_.erase(name);
}

}  // namespace qgemm
