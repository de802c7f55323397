// SPDX-License-Identifier: Apache-2.0
//
// Chunks are looked through in the order of their numbers, so that the newest
// are the first to become free.

#include "kernels/host/weights_arena.h"

#include <algorithm>
#include <limits>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace qgemm {

ArenaPlace::~ArenaPlace() {
  if (arena_ != nullptr) arena_->Give(*this);
}

std::shared_ptr<WeightsArena> WeightsArena::Create(int64_t chunk_bytes,
                                                   MakeChunk make_chunk) {
  return absl::WrapUnique(new WeightsArena(chunk_bytes, std::move(make_chunk)));
}

absl::StatusOr<ArenaPlace> WeightsArena::Allocate(int64_t size_bytes) {
  MutexLock lock(&mutex_);
  for (auto& [number, chunk] : chunks_) {
    // Places in an adopted chunk are not known before all is inherited.
    if (chunk.is_adopted && is_adopting_) continue;
    const std::optional<int64_t> offset = chunk.ranges.Take(size_bytes);
    if (offset.has_value()) return PlaceAt(number, chunk, *offset, size_bytes);
  }
  ASSIGN_OR_RETURN(const uint32_t number, AddChunk(size_bytes));
  Chunk& chunk = chunks_.at(number);
  const std::optional<int64_t> offset = chunk.ranges.Take(size_bytes);
  CHECK(offset.has_value()) << "a new chunk has room";
  return PlaceAt(number, chunk, *offset, size_bytes);
}

ArenaPlace WeightsArena::PlaceAt(uint32_t number, const Chunk& chunk,
                                 int64_t offset_bytes, int64_t size_bytes) {
  ArenaPlace place;
  place.arena_ = shared_from_this();
  place.data_ = chunk.memory->data() + offset_bytes;
  place.chunk_ = number;
  place.offset_bytes_ = offset_bytes;
  place.size_bytes_ = size_bytes;
  return place;
}

absl::StatusOr<uint32_t> WeightsArena::AddChunk(int64_t size_bytes) {
  if (next_number_ == std::numeric_limits<uint32_t>::max()) {
    return absl::ResourceExhaustedError("all numbers of chunks are in use");
  }
  // Layers of a model have few sizes: room for so many whole ones of this size
  // leaves next to nothing over.
  const int64_t place_bytes = RoundUp(size_bytes, kPlaceStepBytes);
  const int64_t places = std::max(chunk_bytes_ / place_bytes, int64_t{1});
  ASSIGN_OR_RETURN(std::unique_ptr<ArenaChunk> memory,
                   make_chunk_(places * place_bytes));
  const uint32_t number = next_number_++;
  FreeRanges ranges(memory->size_bytes());
  const ArenaChunk& chunk = *memory;
  chunks_.emplace(number, Chunk{std::move(memory), std::move(ranges), false});
  if (watcher_ != nullptr) {
    watcher_->ChunkMade(number, chunk.size_bytes(), chunk.descriptor());
  }
  return number;
}

void WeightsArena::Give(const ArenaPlace& place) {
  MutexLock lock(&mutex_);
  Chunk& chunk = chunks_.at(place.chunk());
  // Bytes that were not inherited may yet be, by another record.
  if (!chunk.is_adopted || !is_adopting_) {
    chunk.memory->Discard(place.offset_bytes(), place.size_bytes());
  }
  chunk.ranges.Give(place.offset_bytes(), place.size_bytes());
  DropIfFree(place.chunk());
}

void WeightsArena::DropIfFree(uint32_t number) {
  const auto chunk = chunks_.find(number);
  if (!chunk->second.ranges.all_free()) return;
  if (chunk->second.is_adopted && is_adopting_) return;
  chunks_.erase(chunk);
  if (watcher_ != nullptr) watcher_->ChunkDropped(number);
}

void WeightsArena::Watch(ChunkWatcher* watcher) {
  MutexLock lock(&mutex_);
  watcher_ = watcher;
  if (watcher == nullptr) return;
  for (const auto& [number, chunk] : chunks_) {
    if (chunk.is_adopted) continue;  // whoever adopted it has it
    watcher->ChunkMade(number, chunk.memory->size_bytes(),
                       chunk.memory->descriptor());
  }
}

absl::Status WeightsArena::Adopt(uint32_t number,
                                 std::unique_ptr<ArenaChunk> chunk) {
  MutexLock lock(&mutex_);
  if (!is_adopting_) {
    return absl::FailedPreconditionError("chunks are adopted at the start");
  }
  const int64_t size_bytes = chunk->size_bytes();
  if (size_bytes <= 0 || size_bytes % kPlaceStepBytes != 0 ||
      number == std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk ", number, " of ", size_bytes, " bytes is none of an arena"));
  }
  FreeRanges ranges(size_bytes);
  const bool is_new =
      chunks_
          .try_emplace(number, Chunk{std::move(chunk), std::move(ranges), true})
          .second;
  if (!is_new) {
    return absl::AlreadyExistsError(
        absl::StrCat("chunk ", number, " is there already"));
  }
  next_number_ = std::max(next_number_, number + 1);
  return absl::OkStatus();
}

void WeightsArena::EndAdoption() {
  MutexLock lock(&mutex_);
  is_adopting_ = false;
  for (auto chunk = chunks_.begin(); chunk != chunks_.end();) {
    const uint32_t number = chunk->first;
    ++chunk;
    DropIfFree(number);
  }
}

absl::StatusOr<ArenaPlace> WeightsArena::Take(const KeptLayer& layer) {
  MutexLock lock(&mutex_);
  const auto chunk = chunks_.find(layer.chunk);
  if (!is_adopting_ || chunk == chunks_.end() || !chunk->second.is_adopted ||
      !chunk->second.ranges.TakeAt(layer.offset_bytes, layer.size_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "place of ", layer.size_bytes, " bytes at ", layer.offset_bytes,
        " of chunk ", layer.chunk, ": not there, or taken"));
  }
  return PlaceAt(layer.chunk, chunk->second, layer.offset_bytes,
                 layer.size_bytes);
}

int64_t WeightsArena::adopted_bytes() const {
  MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [unused, chunk] : chunks_) {
    if (chunk.is_adopted) bytes += chunk.memory->size_bytes();
  }
  return bytes;
}

}  // namespace qgemm
