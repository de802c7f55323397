// SPDX-License-Identifier: Apache-2.0
//
// A lane's shared memory at the client: the mapping, and its operands, divided
// among requests and buffers. lane/segment.h has the layout.

#ifndef QGEMM_CLIENT_LANE_SEGMENT_H_
#define QGEMM_CLIENT_LANE_SEGMENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "lane/messages.h"
#include "lane/segment.h"

namespace qgemm {

// Divides a range of bytes among its users: offsets alone, no memory. First fit
// by address; neighbours that are free become one. Offsets and sizes
// are multiples of `granularity`. Used by one thread at a time.
class RangeAllocator {
 public:
  // The range [0, bytes), of which a rest below `granularity` is never given.
  RangeAllocator(int64_t bytes, int64_t granularity);

  // The offset of `bytes` bytes, 1 or more; nullopt if no free range has them.
  std::optional<int64_t> Allocate(int64_t bytes);

  // Gives back what Allocate(bytes) returned as `offset`.
  void Free(int64_t offset, int64_t bytes);

  int64_t free_bytes() const { return free_bytes_; }
  // The largest that Allocate gives now.
  int64_t largest_free() const;

 private:
  const int64_t granularity_;
  int64_t free_bytes_;
  std::map<int64_t, int64_t> free_;  // sizes of free ranges by offset
};

// Mapped until the last reference goes; a child of fork() does not have it.
// Thread-safe.
class LaneSegment : public std::enable_shared_from_this<LaneSegment> {
 public:
  // Bytes of the operands, given back on destruction. Move-only; keeps the
  // mapping.
  class Range {
   public:
    Range() = default;  // none
    Range(Range&& other) noexcept { *this = std::move(other); }
    Range& operator=(Range&& other) noexcept {
      std::swap(segment_, other.segment_);
      std::swap(offset_, other.offset_);
      std::swap(size_, other.size_);
      return *this;
    }
    ~Range() {
      if (segment_ != nullptr) segment_->Free(offset_, size_);
    }

    bool is_none() const { return segment_ == nullptr; }
    // Within the operands; a multiple of lane::kOperandAlignment.
    uint64_t offset() const { return offset_; }
    absl::Span<uint8_t> bytes() const {
      if (is_none()) return {};
      return segment_->operands().subspan(offset_, size_);
    }

   private:
    friend class LaneSegment;
    Range(std::shared_ptr<LaneSegment> segment, int64_t offset, int64_t size)
        : segment_(std::move(segment)), offset_(offset), size_(size) {}

    std::shared_ptr<LaneSegment> segment_;
    int64_t offset_ = 0;
    int64_t size_ = 0;
  };

  // Maps what the server granted. Errors: INTERNAL if its numbers do not fit
  // each other or the descriptor; RESOURCE_EXHAUSTED without address space.
  static absl::StatusOr<std::shared_ptr<LaneSegment>> Map(
      const lane::Accept& accept, const FileDescriptor& descriptor);

  LaneSegment(const LaneSegment&) = delete;
  LaneSegment& operator=(const LaneSegment&) = delete;
  ~LaneSegment();

  uint32_t slots() const { return accept_.slots; }
  lane::SegmentHead& head() const { return *At<lane::SegmentHead>(0); }
  lane::RequestEntry& request(uint32_t index) const {
    return At<lane::RequestEntry>(accept_.requests_offset)[index];
  }
  lane::Completion& completion(uint32_t slot) const {
    return At<lane::Completion>(accept_.completions_offset)[slot];
  }
  const lane::DoneWord& done_word(uint32_t index) const {
    return At<lane::DoneWord>(accept_.done_words_offset)[index];
  }
  absl::Span<uint8_t> operands() const {
    return absl::MakeSpan(base_ + accept_.operands_offset,
                          accept_.operands_bytes);
  }

  // A none range if no free one has so many bytes, 1 or more.
  Range Allocate(int64_t bytes);

  // Place of all of the bytes among the operands; nullopt if they do not, or
  // not as the layout aligns them.
  std::optional<uint64_t> OffsetOf(absl::Span<const uint8_t> bytes) const;

 private:
  LaneSegment(const lane::Accept& accept, uint8_t* base);

  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  void Free(int64_t offset, int64_t bytes);

  const lane::Accept accept_;
  uint8_t* const base_;
  Mutex mutex_;
  RangeAllocator ranges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_SEGMENT_H_
