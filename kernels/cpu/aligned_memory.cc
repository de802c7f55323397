// SPDX-License-Identifier: Apache-2.0
//
// Small requests come from the heap, large ones straight from mmap, so that
// they never stay behind in the heap's free lists.

#include "kernels/cpu/aligned_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"

namespace qgemm::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
constexpr int64_t kMapFrom = int64_t{256} << 10;

bool IsMapped(int64_t held_bytes) { return held_bytes >= kMapFrom; }

uint8_t* Map(int64_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  // A hint: without huge pages reads are slower, not wrong.
  if (bytes >= kHugePageBytes) madvise(mapped, bytes, MADV_HUGEPAGE);
  return static_cast<uint8_t*>(mapped);
}

uint8_t* TakeFromHeap(int64_t bytes) {
  void* taken = std::aligned_alloc(kAlignment, bytes);
  if (taken != nullptr) std::memset(taken, 0, bytes);
  return static_cast<uint8_t*>(taken);
}

}  // namespace

int64_t AlignedMemory::HeldBytes(int64_t size_bytes) {
  const int64_t bytes = std::max<int64_t>(size_bytes, 1);
  return RoundUp(bytes,
                 bytes > kMapFrom - kAlignment ? kPageBytes : kAlignment);
}

absl::StatusOr<AlignedMemory> AlignedMemory::Allocate(int64_t size_bytes) {
  const int64_t held_bytes = HeldBytes(size_bytes);
  uint8_t* data =
      IsMapped(held_bytes) ? Map(held_bytes) : TakeFromHeap(held_bytes);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("allocate ", held_bytes, " bytes: ", strerror(errno)));
  }
  return AlignedMemory(data, held_bytes);
}

AlignedMemory::AlignedMemory(uint8_t* data, int64_t held_bytes)
    : data_(data),
      held_bytes_(held_bytes),
      heap_share_(IsMapped(held_bytes) ? 0 : held_bytes) {}

AlignedMemory& AlignedMemory::operator=(AlignedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(held_bytes_, other.held_bytes_);
  std::swap(heap_share_, other.heap_share_);
  return *this;
}

AlignedMemory::~AlignedMemory() {
  if (data_ == nullptr) return;
  if (IsMapped(held_bytes_)) {
    munmap(data_, held_bytes_);
  } else {
    std::free(data_);
  }
}

}  // namespace qgemm::cpu
