// SPDX-License-Identifier: Apache-2.0
//
// Files of one folder, as the state directory needs them: a seam behind which
// tests put a file system that loses what was not synced.

#ifndef QGEMM_SERVER_STORAGE_FILE_SYSTEM_H_
#define QGEMM_SERVER_STORAGE_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace qgemm {

// An open file. ReadAt is thread-safe; the rest is for one thread at a time.
class File {
 public:
  virtual ~File() = default;

  // Fills `bytes` from `offset` on and returns how many there were: fewer than
  // asked for only at the end of the file. DATA_LOSS if the disk cannot read
  // them.
  virtual absl::StatusOr<int64_t> ReadAt(int64_t offset,
                                         absl::Span<char> bytes) const = 0;
  // Writes all of `bytes`, or returns an error after writing some.
  virtual absl::Status WriteAt(int64_t offset, absl::string_view bytes) = 0;
  virtual absl::StatusOr<int64_t> SizeBytes() const = 0;
  virtual absl::Status Truncate(int64_t size_bytes) = 0;
  // Takes the disk's space for a file of that size, where that can be done, so
  // that a full disk is found out before the bytes come.
  virtual absl::Status Allocate(int64_t size_bytes) = 0;
  // Begins to write what was written there to the disk; a hint.
  virtual void StartWriteback(int64_t /*offset*/, int64_t /*bytes*/) {}
  // Returns once all that was written is on the disk.
  virtual absl::Status Sync() = 0;
};

struct FolderEntry {
  std::string name;
  int64_t size_bytes = 0;  // of a file
  bool is_folder = false;
};

// Thread-safe. Paths are relative to the folder that the file system is of, and
// are all that errors name. Errors: NOT_FOUND (no such file),
// RESOURCE_EXHAUSTED (the disk or a quota is full, a limit of file sizes),
// FAILED_PRECONDITION (no permission, a read-only disk), INTERNAL (the disk
// failed).
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual absl::StatusOr<std::unique_ptr<File>> OpenToRead(
      const std::string& path) = 0;
  // Creates the file if there is none.
  virtual absl::StatusOr<std::unique_ptr<File>> OpenToWrite(
      const std::string& path) = 0;
  // Creates a file without a name, which goes with the object unless it is
  // published. A name that it may have to have until then begins with
  // kTemporaryPrefix.
  virtual absl::StatusOr<std::unique_ptr<File>> CreateUnnamed(
      const std::string& folder) = 0;
  // Gives an unnamed file, which was synced, its name in the same folder, in
  // place of a file that has it. To be followed by SyncFolder.
  virtual absl::Status Publish(File* unnamed, const std::string& path) = 0;

  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // OK if it exists already.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<FolderEntry>> List(
      const std::string& folder) = 0;
  // Returns once the names in the folder are on the disk.
  virtual absl::Status SyncFolder(const std::string& path) = 0;

  // Holds the file's lock until the object goes. UNAVAILABLE if another process
  // holds it.
  virtual absl::StatusOr<std::unique_ptr<File>> Lock(
      const std::string& path) = 0;
};

inline constexpr absl::string_view kTemporaryPrefix = ".tmp-";

// The system's files in `root`, which must exist.
std::unique_ptr<FileSystem> NewSystemFiles(const std::string& root);

}  // namespace qgemm

#endif  // QGEMM_SERVER_STORAGE_FILE_SYSTEM_H_
