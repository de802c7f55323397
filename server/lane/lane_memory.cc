// SPDX-License-Identifier: Apache-2.0
//
// A memfd, sealed before anybody else has it. The seals leave its client one
// thing to do to it beside writing: to punch holes, which read as zeros and
// count for the memory that was taken at the start.

#include "server/lane/lane_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

// Linux 6.3; older C libraries do not name it.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace qgemm {
namespace {

// Size on every Linux on x86-64, and the least of others.
constexpr int64_t kPageBytes = 4096;

int64_t UpToPage(int64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

absl::Status NoMemory(const LaneLayout& layout, absl::string_view step) {
  return absl::ResourceExhaustedError(
      absl::StrCat("a lane of ", layout.segment_bytes, " bytes: ", step, ": ",
                   std::strerror(errno)));
}

absl::StatusOr<FileDescriptor> MakeFile(const LaneLayout& layout) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  FileDescriptor file(memfd_create("qgemm-lane", kFlags | MFD_NOEXEC_SEAL));
  if (!file.valid() && errno == EINVAL) {  // a kernel that does not know it
    file.Reset(memfd_create("qgemm-lane", kFlags));
  }
  if (!file.valid()) return NoMemory(layout, "make a file");
  // Takes the memory now: no page of it can be missing later.
  if (ftruncate(file.get(), layout.segment_bytes) != 0 ||
      fallocate(file.get(), 0, 0, layout.segment_bytes) != 0) {
    return NoMemory(layout, "take memory");
  }
  if (fcntl(file.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return NoMemory(layout, "seal the file");
  }
  return file;
}

}  // namespace

LaneLayout LayOutLane(uint32_t slots, int64_t operand_bytes) {
  LaneLayout layout;
  layout.slots = slots;
  int64_t end = 0;
  const auto place = [&end](int64_t bytes) {
    const int64_t offset = end;
    end = UpToPage(end + bytes);
    return offset;
  };
  place(sizeof(lane::SegmentHead));
  layout.requests_offset = place(int64_t{slots} * sizeof(lane::RequestEntry));
  layout.completions_offset = place(int64_t{slots} * sizeof(lane::Completion));
  layout.done_words_offset = place(int64_t{slots} * sizeof(lane::DoneWord));
  layout.operands_bytes = UpToPage(operand_bytes);
  layout.operands_offset = place(layout.operands_bytes);
  layout.segment_bytes = end;
  return layout;
}

absl::StatusOr<std::unique_ptr<LaneMemory>> LaneMemory::Create(
    const LaneLayout& layout, Backend* backend) {
  ASSIGN_OR_RETURN(FileDescriptor file, MakeFile(layout));
  void* const data = mmap(nullptr, layout.segment_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (data == MAP_FAILED) return NoMemory(layout, "map it");
  auto memory = std::unique_ptr<LaneMemory>(
      new LaneMemory(layout, std::move(file), static_cast<uint8_t*>(data)));
  // Children of the process do not get it.
  madvise(data, layout.segment_bytes, MADV_DONTFORK);
  ASSIGN_OR_RETURN(
      memory->lease_,
      backend->LeaseHostMemory(memory->operands(), layout.operands_bytes));
  return memory;
}

LaneMemory::~LaneMemory() {
  lease_ = StagingLease();
  munmap(data_, layout_.segment_bytes);
}

}  // namespace qgemm
