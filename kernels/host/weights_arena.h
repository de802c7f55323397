// SPDX-License-Identifier: Apache-2.0
//
// Places for layers in chunks of memory that can outlive the process
// (kernels/matrix/kept_memory.h). What a chunk is made of is its maker's.

#ifndef QGEMM_KERNELS_HOST_WEIGHTS_ARENA_H_
#define QGEMM_KERNELS_HOST_WEIGHTS_ARENA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/matrix/kept_memory.h"

namespace qgemm {

// Places begin, and end, on multiples of that.
inline constexpr int64_t kPlaceStepBytes = 256;

// Free bytes of one chunk: decides places only. Not thread-safe.
class FreeRanges {
 public:
  // All of a chunk of that size, a multiple of the step, is free.
  explicit FreeRanges(int64_t size_bytes);

  // Takes the smallest free range that has room, of several the first, and
  // returns the offset of the place. nullopt: there is none.
  std::optional<int64_t> Take(int64_t size_bytes);
  // Takes that place; false if it is not free, not in the chunk, or not on the
  // step.
  bool TakeAt(int64_t offset_bytes, int64_t size_bytes);
  // Gives back a place that was taken, whole.
  void Give(int64_t offset_bytes, int64_t size_bytes);

  bool all_free() const;
  int64_t free_bytes() const { return free_bytes_; }

 private:
  const int64_t size_bytes_;
  int64_t free_bytes_;
  std::map<int64_t, int64_t> free_;  // end by begin; none touch
};

// Memory that is a file descriptor. Gives both up at the end.
class ArenaChunk {
 public:
  virtual ~ArenaChunk() = default;

  virtual uint8_t* data() const = 0;  // an address of the device
  virtual int64_t size_bytes() const = 0;
  virtual int descriptor() const = 0;
  // Contents of that place are of no use any more.
  virtual void Discard(int64_t /*offset_bytes*/, int64_t /*size_bytes*/) {}
};

class WeightsArena;

// A place in a chunk, aligned to 256 bytes, whose contents are undefined at
// first. Move-only; null when default-constructed or moved from. Nothing that
// was enqueued uses it any more when it goes.
class ArenaPlace {
 public:
  ArenaPlace() = default;
  ArenaPlace(ArenaPlace&& other) noexcept { *this = std::move(other); }
  ArenaPlace& operator=(ArenaPlace&& other) noexcept {
    std::swap(arena_, other.arena_);
    std::swap(data_, other.data_);
    std::swap(chunk_, other.chunk_);
    std::swap(offset_bytes_, other.offset_bytes_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~ArenaPlace();

  bool is_null() const { return arena_ == nullptr; }
  uint8_t* data() const { return data_; }
  uint32_t chunk() const { return chunk_; }
  int64_t offset_bytes() const { return offset_bytes_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  friend class WeightsArena;

  std::shared_ptr<WeightsArena> arena_;
  uint8_t* data_ = nullptr;
  uint32_t chunk_ = 0;
  int64_t offset_bytes_ = 0;
  int64_t size_bytes_ = 0;
};

// Thread-safe. Chunks go as soon as no place is in them.
class WeightsArena : public std::enable_shared_from_this<WeightsArena> {
 public:
  // Makes a chunk of at least so many bytes, a multiple of kPlaceStepBytes.
  using MakeChunk =
      std::function<absl::StatusOr<std::unique_ptr<ArenaChunk>>(int64_t)>;

  // Chunks have up to `chunk_bytes`, or what a larger layer needs.
  static std::shared_ptr<WeightsArena> Create(int64_t chunk_bytes,
                                              MakeChunk make_chunk);

  // A place for `size_bytes` > 0. Errors: those of the maker.
  absl::StatusOr<ArenaPlace> Allocate(int64_t size_bytes);

  // KeptMemory's.
  void Watch(ChunkWatcher* watcher);
  absl::Status Adopt(uint32_t number, std::unique_ptr<ArenaChunk> chunk);
  void EndAdoption();
  // That place of an adopted chunk. Errors: INVALID_ARGUMENT (it is not free,
  // or not there).
  absl::StatusOr<ArenaPlace> Take(const KeptLayer& layer);

  // Bytes of adopted chunks that are still there.
  int64_t adopted_bytes() const;

 private:
  friend class ArenaPlace;

  struct Chunk {
    std::unique_ptr<ArenaChunk> memory;
    FreeRanges ranges;
    bool is_adopted = false;
  };

  WeightsArena(int64_t chunk_bytes, MakeChunk make_chunk)
      : chunk_bytes_(chunk_bytes), make_chunk_(std::move(make_chunk)) {}

  ArenaPlace PlaceAt(uint32_t number, const Chunk& chunk, int64_t offset_bytes,
                     int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<uint32_t> AddChunk(int64_t size_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropIfFree(uint32_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Give(const ArenaPlace& place);

  const int64_t chunk_bytes_;
  const MakeChunk make_chunk_;
  mutable Mutex mutex_;
  std::map<uint32_t, Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  uint32_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_adopting_ ABSL_GUARDED_BY(mutex_) = true;
  ChunkWatcher* watcher_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// Memory of one layer: the backend's own, or a place in an arena. Move-only.
template <typename Own>
class LayerMemory {
 public:
  LayerMemory() = default;
  explicit LayerMemory(Own own) : own_(std::move(own)) {}
  explicit LayerMemory(ArenaPlace place) : place_(std::move(place)) {}

  uint8_t* data() const {
    return place_.is_null() ? own_.data() : place_.data();
  }
  int64_t size_bytes() const {
    return place_.is_null() ? own_.size_bytes() : place_.size_bytes();
  }
  // Null if it is not in an arena.
  const ArenaPlace& place() const { return place_; }

 private:
  Own own_;
  ArenaPlace place_;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_HOST_WEIGHTS_ARENA_H_
