// SPDX-License-Identifier: Apache-2.0

#include "server/keep/manifest_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "server/keep/manifest.h"

namespace qgemm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// Far more than --max_layers allows to use.
constexpr int64_t kMostSlots = int64_t{1} << 24;

absl::Status NoMemory(absl::string_view operation) {
  return absl::ResourceExhaustedError(absl::StrCat(
      operation, " the manifest of kept memory: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ManifestMemory>> ManifestMemory::Create(
    const std::string& header, int64_t records) {
  CHECK_EQ(header.size(), static_cast<size_t>(kManifestSlotBytes));
  const int64_t slots = std::min(records + 1, kMostSlots);
  FileDescriptor memory(
      memfd_create("qgemm-manifest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid() ||
      ftruncate(memory.get(), slots * kManifestSlotBytes) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    return NoMemory("make");
  }
  ASSIGN_OR_RETURN(auto manifest, Map(std::move(memory), slots));
  std::memcpy(manifest->data_, header.data(), header.size());
  return manifest;
}

absl::StatusOr<std::unique_ptr<ManifestMemory>> ManifestMemory::Open(
    FileDescriptor memory) {
  struct stat status = {};
  if (fstat(memory.get(), &status) != 0 ||
      fcntl(memory.get(), F_GET_SEALS) != kSeals ||
      status.st_size % kManifestSlotBytes != 0 || status.st_size == 0 ||
      status.st_size / kManifestSlotBytes > kMostSlots) {
    return absl::InvalidArgumentError("no manifest of kept memory");
  }
  return Map(std::move(memory), status.st_size / kManifestSlotBytes);
}

absl::StatusOr<std::unique_ptr<ManifestMemory>> ManifestMemory::Map(
    FileDescriptor memory, int64_t slots) {
  void* const mapped =
      mmap(nullptr, slots * kManifestSlotBytes, PROT_READ | PROT_WRITE,
           MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return NoMemory("map");
  return absl::WrapUnique(
      new ManifestMemory(std::move(memory), static_cast<char*>(mapped), slots));
}

ManifestMemory::~ManifestMemory() {
  munmap(data_, slots_ * kManifestSlotBytes);
}

char* ManifestMemory::At(int64_t slot) const {
  CHECK(slot >= 0 && slot < slots_);
  return data_ + slot * kManifestSlotBytes;
}

// Pages that were never written are not touched: that would take memory.
std::vector<int64_t> ManifestMemory::UsedSlots() const {
  std::vector<int64_t> used;
  const off_t end = slots_ * kManifestSlotBytes;
  off_t begin = lseek(memory_.get(), kManifestSlotBytes, SEEK_DATA);
  while (begin >= 0 && begin < end) {
    const off_t hole = lseek(memory_.get(), begin, SEEK_HOLE);
    if (hole <= begin) break;
    for (; begin < hole; begin += kManifestSlotBytes) {
      const int64_t slot = begin / kManifestSlotBytes;
      const auto* const state = reinterpret_cast<const uint64_t*>(At(slot));
      if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == kValidRecord) {
        used.push_back(slot);
      }
    }
    begin = lseek(memory_.get(), hole, SEEK_DATA);
  }
  return used;
}

std::string ManifestMemory::Read(int64_t slot) const {
  return std::string(At(slot), kManifestSlotBytes);
}

void ManifestMemory::Write(int64_t slot, absl::string_view record) {
  CHECK_EQ(record.size(), static_cast<size_t>(kManifestSlotBytes));
  char* const to = At(slot);
  constexpr size_t kStateBytes = sizeof(kValidRecord);
  std::memcpy(to + kStateBytes, record.data() + kStateBytes,
              record.size() - kStateBytes);
  __atomic_store_n(reinterpret_cast<uint64_t*>(to), kValidRecord,
                   __ATOMIC_RELEASE);
}

void ManifestMemory::Clear(int64_t slot) {
  __atomic_store_n(reinterpret_cast<uint64_t*>(At(slot)), 0, __ATOMIC_SEQ_CST);
}

}  // namespace qgemm
