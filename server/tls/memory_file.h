// SPDX-License-Identifier: Apache-2.0
//
// A file that only this process can open and that is replaced as a whole, for
// libraries that take secrets by their path.

#ifndef QGEMM_SERVER_TLS_MEMORY_FILE_H_
#define QGEMM_SERVER_TLS_MEMORY_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace qgemm {

// Lies in memory, under a descriptor's number (man 2 memfd_create): nothing is
// left in a file system, whichever way the process ends. Who opens the path
// reads one text, whole, of those that it has had. Each text has a later time
// of modification than the one before, by a second at least. Not thread-safe,
// but readers may read meanwhile.
class MemoryFile {
 public:
  // Errors name the step and the system's reason: no such files, no /proc, or,
  // RESOURCE_EXHAUSTED, no descriptors.
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Create(
      absl::string_view text);

  absl::Status Replace(absl::string_view text);

  // The same for the life of the object.
  const std::string& path() const { return path_; }

 private:
  MemoryFile() = default;

  absl::StatusOr<FileDescriptor> MakeFile(absl::string_view text);

  FileDescriptor file_;
  std::string path_;
  int64_t modified_seconds_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_TLS_MEMORY_FILE_H_
