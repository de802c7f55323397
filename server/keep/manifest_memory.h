// SPDX-License-Identifier: Apache-2.0
//
// The manifest's slots in a memfd, which outlives the process with the layers.

#ifndef QGEMM_SERVER_KEEP_MANIFEST_MEMORY_H_
#define QGEMM_SERVER_KEEP_MANIFEST_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace qgemm {

// Slot 0 is the header; records follow. A slot is used by one thread at a time.
class ManifestMemory {
 public:
  // Room for `records`, of which memory takes what is written. Errors:
  // RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<ManifestMemory>> Create(
      const std::string& header, int64_t records);
  // One that another process made, and uses no more. Errors: INVALID_ARGUMENT
  // (not such memory), RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<ManifestMemory>> Open(
      FileDescriptor memory);

  ManifestMemory(const ManifestMemory&) = delete;
  ManifestMemory& operator=(const ManifestMemory&) = delete;
  ~ManifestMemory();

  int descriptor() const { return memory_.get(); }
  int64_t records() const { return slots_ - 1; }

  // Slots whose record counts, going by its first word, in ascending order.
  std::vector<int64_t> UsedSlots() const;
  // A copy of a slot: 0 to records().
  std::string Read(int64_t slot) const;
  // Writes a record of EncodeManifestRecord and then makes it count.
  void Write(int64_t slot, absl::string_view record);
  // The record counts no more.
  void Clear(int64_t slot);

 private:
  ManifestMemory(FileDescriptor memory, char* data, int64_t slots)
      : memory_(std::move(memory)), data_(data), slots_(slots) {}

  static absl::StatusOr<std::unique_ptr<ManifestMemory>> Map(
      FileDescriptor memory, int64_t slots);
  char* At(int64_t slot) const;

  const FileDescriptor memory_;
  char* const data_;
  const int64_t slots_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_MANIFEST_MEMORY_H_
