// SPDX-License-Identifier: Apache-2.0
//
// Shared memory of one lane on the server's side: the sealed file that its
// client maps too, and where its parts lie. Who reads and writes which of them
// is in lane/segment.h.

#ifndef QGEMM_SERVER_LANE_LANE_MEMORY_H_
#define QGEMM_SERVER_LANE_LANE_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "kernels/matrix/backend.h"
#include "lane/segment.h"

namespace qgemm {

// Places of the parts, each on a page of its own. Offsets and sizes in bytes.
struct LaneLayout {
  uint32_t slots = 0;
  int64_t requests_offset = 0;
  int64_t completions_offset = 0;
  int64_t done_words_offset = 0;
  int64_t operands_offset = 0;
  int64_t operands_bytes = 0;  // what was wanted, up to a page's end
  int64_t segment_bytes = 0;
};

// The layout for `slots`, a power of two within lane/segment.h's bounds, and
// operands of 1 to 2^60 bytes. Pure.
LaneLayout LayOutLane(uint32_t slots, int64_t operand_bytes);

// Thread-safe, but for what its parts say. The memory is there whole from the
// start, cannot change its size, and starts as zeros. Its client may write all
// of it at any time: nothing read from it is to be trusted, or to be the same
// when it is read again.
class LaneMemory {
 public:
  // `backend` computes with operands in it and must outlive it.
  // Errors: RESOURCE_EXHAUSTED (the system has no such memory), those of
  // Backend::LeaseHostMemory.
  static absl::StatusOr<std::unique_ptr<LaneMemory>> Create(
      const LaneLayout& layout, Backend* backend);
  LaneMemory(const LaneMemory&) = delete;
  LaneMemory& operator=(const LaneMemory&) = delete;
  ~LaneMemory();

  const LaneLayout& layout() const { return layout_; }
  int fd() const { return file_.get(); }

  lane::SegmentHead& head() const { return *At<lane::SegmentHead>(0); }
  // [slots] each.
  const lane::RequestEntry* requests() const {
    return At<lane::RequestEntry>(layout_.requests_offset);
  }
  lane::Completion* completions() const {
    return At<lane::Completion>(layout_.completions_offset);
  }
  lane::DoneWord* done_words() const {
    return At<lane::DoneWord>(layout_.done_words_offset);
  }
  uint8_t* operands() const { return At<uint8_t>(layout_.operands_offset); }

 private:
  LaneMemory(const LaneLayout& layout, FileDescriptor file, uint8_t* data)
      : layout_(layout), file_(std::move(file)), data_(data) {}

  template <typename Part>
  Part* At(int64_t offset) const {
    return reinterpret_cast<Part*>(data_ + offset);
  }

  const LaneLayout layout_;
  const FileDescriptor file_;
  uint8_t* const data_;
  StagingLease lease_;  // of the operands, at the backend
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_LANE_MEMORY_H_
