// SPDX-License-Identifier: Apache-2.0
//
// A memfd is sealed against other sizes, so that nobody's truncation makes an
// access to it fail.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/memory_checksum.h"
#include "base/status_macros.h"
#include "kernels/cpu/cpu_images.h"
#include "kernels/cpu/cpu_weights.h"

namespace qgemm::cpu {
namespace {

constexpr int64_t kChunkBytes = int64_t{256} << 20;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status SystemError(absl::string_view operation, int64_t size_bytes) {
  const std::string text =
      absl::StrCat(operation, " ", size_bytes,
                   " bytes of kept memory: ", std::strerror(errno));
  return errno == ENOMEM || errno == EMFILE || errno == ENFILE
             ? absl::ResourceExhaustedError(text)
             : absl::InvalidArgumentError(text);
}

class MemfdChunk final : public ArenaChunk {
 public:
  static absl::StatusOr<std::unique_ptr<ArenaChunk>> Make(int64_t size_bytes) {
    const int64_t rounded_bytes = RoundUp(size_bytes, kHugePageBytes);
    FileDescriptor memory(
        memfd_create("qgemm-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory.valid() || ftruncate(memory.get(), rounded_bytes) != 0 ||
        fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
      return SystemError("make", rounded_bytes);
    }
    return Map(std::move(memory), rounded_bytes);
  }

  // One that another process made.
  static absl::StatusOr<std::unique_ptr<ArenaChunk>> Open(FileDescriptor memory,
                                                          int64_t size_bytes) {
    struct stat status = {};
    if (fstat(memory.get(), &status) != 0 ||
        fcntl(memory.get(), F_GET_SEALS) != kSeals ||
        status.st_size != size_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "not kept memory of ", size_bytes, " bytes, sealed as its size is"));
    }
    return Map(std::move(memory), size_bytes);
  }

  ~MemfdChunk() override { munmap(data_, size_bytes_); }

  uint8_t* data() const override { return data_; }
  int64_t size_bytes() const override { return size_bytes_; }
  int descriptor() const override { return memory_.get(); }

  void Discard(int64_t offset_bytes, int64_t size_bytes) override {
    // Without it the memory comes back with the whole chunk.
    fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              offset_bytes, size_bytes);
  }

 private:
  MemfdChunk(FileDescriptor memory, uint8_t* data, int64_t size_bytes)
      : memory_(std::move(memory)), data_(data), size_bytes_(size_bytes) {}

  static absl::StatusOr<std::unique_ptr<ArenaChunk>> Map(FileDescriptor memory,
                                                         int64_t size_bytes) {
    void* const mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED, memory.get(), 0);
    if (mapped == MAP_FAILED) return SystemError("map", size_bytes);
    // A hint: without huge pages reads are slower, not wrong.
    madvise(mapped, size_bytes, MADV_HUGEPAGE);
    return std::unique_ptr<ArenaChunk>(new MemfdChunk(
        std::move(memory), static_cast<uint8_t*>(mapped), size_bytes));
  }

  const FileDescriptor memory_;
  uint8_t* const data_;
  const int64_t size_bytes_;
};

}  // namespace

CpuKeptMemory::CpuKeptMemory(const BackendLimits& limits, ByteBudget* budget)
    : limits_(limits),
      budget_(budget),
      arena_(WeightsArena::Create(kChunkBytes, MemfdChunk::Make)) {}

std::optional<KeptLayer> CpuKeptMemory::PlaceOf(
    const ResidentWeights& weights) const {
  const auto* const ours = dynamic_cast<const CpuWeights*>(&weights);
  if (ours == nullptr || ours->parts().memory.place().is_null()) {
    return std::nullopt;
  }
  const ArenaPlace& place = ours->parts().memory.place();
  return KeptLayer{
      {place.size_bytes(), ours->parts().checksum, DetailOf(ours->parts())},
      place.chunk(),
      place.offset_bytes()};
}

absl::Status CpuKeptMemory::Adopt(uint32_t chunk, int64_t size_bytes,
                                  FileDescriptor descriptor) {
  ASSIGN_OR_RETURN(auto memory,
                   MemfdChunk::Open(std::move(descriptor), size_bytes));
  return arena_->Adopt(chunk, std::move(memory));
}

absl::StatusOr<std::shared_ptr<const ResidentWeights>> CpuKeptMemory::Inherit(
    const KeptLayer& layer) {
  ASSIGN_OR_RETURN(CpuWeightsParts parts, PartsOf(layer, limits_));
  ASSIGN_OR_RETURN(parts.reservation, budget_->Reserve(layer.size_bytes));
  ASSIGN_OR_RETURN(ArenaPlace place, arena_->Take(layer));
  parts.memory = LayerMemory<AlignedMemory>(std::move(place));
  parts.checksum = MemoryChecksum(parts.memory.data(), layer.size_bytes);
  if (parts.checksum != layer.checksum) {
    return absl::DataLossError("kept layer: its bytes have another checksum");
  }
  return std::make_shared<const CpuWeights>(std::move(parts));
}

}  // namespace qgemm::cpu
