// SPDX-License-Identifier: Apache-2.0

#include "client/lane_segment.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// The part is aligned and lies within the segment.
absl::Status CheckPart(const char* name, uint64_t offset, uint64_t bytes,
                       const lane::Accept& accept) {
  if (offset % lane::kOperandAlignment == 0 && offset <= accept.segment_bytes &&
      bytes <= accept.segment_bytes - offset) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("the lane's ", name, " are ", bytes, " bytes at ", offset,
                   " in a segment of ", accept.segment_bytes));
}

// A server is trusted with the answers, not with the process: nothing that it
// says may lead outside the mapping.
absl::Status Check(const lane::Accept& accept, int descriptor) {
  struct stat file = {};
  if (fstat(descriptor, &file) != 0 || accept.segment_bytes > INT64_MAX ||
      file.st_size < static_cast<int64_t>(accept.segment_bytes)) {
    return absl::InternalError(
        absl::StrCat("the lane's segment is said to have ",
                     accept.segment_bytes, " bytes; it has ", file.st_size));
  }
  const uint32_t slots = accept.slots;
  if (slots < lane::kMinSlots || slots > lane::kMaxSlots ||
      (slots & (slots - 1)) != 0) {
    return absl::InternalError(absl::StrCat(
        "the lane has ", slots, " slots; it must be a power of two from ",
        lane::kMinSlots, " to ", lane::kMaxSlots));
  }
  RETURN_IF_ERROR(
      CheckPart("first words", 0, sizeof(lane::SegmentHead), accept));
  RETURN_IF_ERROR(CheckPart("requests", accept.requests_offset,
                            slots * sizeof(lane::RequestEntry), accept));
  RETURN_IF_ERROR(CheckPart("completions", accept.completions_offset,
                            slots * sizeof(lane::Completion), accept));
  RETURN_IF_ERROR(CheckPart("done words", accept.done_words_offset,
                            slots * sizeof(lane::DoneWord), accept));
  return CheckPart("operands", accept.operands_offset, accept.operands_bytes,
                   accept);
}

}  // namespace

RangeAllocator::RangeAllocator(int64_t bytes, int64_t granularity)
    : granularity_(granularity),
      free_bytes_(bytes / granularity * granularity) {
  if (free_bytes_ > 0) free_.emplace(0, free_bytes_);
}

std::optional<int64_t> RangeAllocator::Allocate(int64_t bytes) {
  CHECK(bytes > 0) << bytes;
  if (bytes > free_bytes_) return std::nullopt;
  bytes = RoundUp(bytes, granularity_);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [offset, size] = *range;
    if (size < bytes) continue;
    const auto next = free_.erase(range);
    if (size > bytes) free_.emplace_hint(next, offset + bytes, size - bytes);
    free_bytes_ -= bytes;
    return offset;
  }
  return std::nullopt;
}

void RangeAllocator::Free(int64_t offset, int64_t bytes) {
  bytes = RoundUp(bytes, granularity_);
  free_bytes_ += bytes;
  const auto next = free_.lower_bound(offset);
  CHECK(next == free_.end() || offset + bytes <= next->first) << offset;
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    CHECK(before->first + before->second <= offset) << offset;
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace_hint(after, offset, bytes);
}

int64_t RangeAllocator::largest_free() const {
  int64_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return largest;
}

absl::StatusOr<std::shared_ptr<LaneSegment>> LaneSegment::Map(
    const lane::Accept& accept, const FileDescriptor& descriptor) {
  RETURN_IF_ERROR(Check(accept, descriptor.get()));
  void* const base = mmap(nullptr, accept.segment_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED, descriptor.get(), 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("map a lane's segment of ", accept.segment_bytes,
                     " bytes: ", std::strerror(errno)));
  }
  // A child would be a second client that takes the same slots.
  madvise(base, accept.segment_bytes, MADV_DONTFORK);
  return absl::WrapUnique(new LaneSegment(accept, static_cast<uint8_t*>(base)));
}

LaneSegment::LaneSegment(const lane::Accept& accept, uint8_t* base)
    : accept_(accept),
      base_(base),
      ranges_(static_cast<int64_t>(accept.operands_bytes),
              lane::kOperandAlignment) {}

LaneSegment::~LaneSegment() { munmap(base_, accept_.segment_bytes); }

LaneSegment::Range LaneSegment::Allocate(int64_t bytes) {
  std::optional<int64_t> offset;
  {
    MutexLock lock(&mutex_);
    offset = ranges_.Allocate(bytes);
  }
  if (!offset.has_value()) return Range();
  return Range(shared_from_this(), *offset, bytes);
}

void LaneSegment::Free(int64_t offset, int64_t bytes) {
  MutexLock lock(&mutex_);
  ranges_.Free(offset, bytes);
}

std::optional<uint64_t> LaneSegment::OffsetOf(
    absl::Span<const uint8_t> bytes) const {
  const absl::Span<const uint8_t> all = operands();
  const std::less_equal<const uint8_t*> at_most;  // of any two pointers
  if (!at_most(all.data(), bytes.data()) ||
      !at_most(bytes.data(), all.data() + all.size())) {
    return std::nullopt;
  }
  const uint64_t offset = bytes.data() - all.data();
  if (bytes.size() > all.size() - offset ||
      offset % lane::kOperandAlignment != 0) {
    return std::nullopt;
  }
  return offset;
}

}  // namespace qgemm
