// SPDX-License-Identifier: Apache-2.0
//
// File system in memory that fails on demand, and loses in a crash what a disk
// may lose: of a file, any sectors that were not synced; of a folder, any
// names.

#ifndef QGEMM_TESTS_SERVER_STORAGE_FAULT_FILES_H_
#define QGEMM_TESTS_SERVER_STORAGE_FAULT_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/storage/file_system.h"
#include "tests/support/seeds.h"

namespace qgemm {

// Sectors are written whole or not at all.
inline constexpr int64_t kSectorBytes = 512;

// For one thread. Files must not outlive it.
class FaultFiles final : public FileSystem {
 public:
  // `random` decides what is lost, and must outlive the object.
  explicit FaultFiles(RandomGenerator* random) : random_(random) {}

  // Every change, and every sync, fails with `error` once `changes` of them
  // have been made; the first that fails may have been made in part. An OK
  // error ends the fault.
  void FailAfter(int64_t changes, absl::Status error) {
    changes_left_ = changes;
    error_ = std::move(error);
    is_once_ = false;
  }
  // The same of one change alone.
  void FailOnceAfter(int64_t changes, absl::Status error) {
    FailAfter(changes, std::move(error));
    is_once_ = true;
  }
  // Changes that were tried so far.
  int64_t changes() const { return changes_; }

  // The power goes and comes back. Open files and locks are gone.
  void Crash();

  // The bytes of a file, for tests that damage it.
  std::string& Bytes(const std::string& path);
  bool Has(const std::string& path) const { return names_.count(path) != 0; }

  absl::StatusOr<std::unique_ptr<File>> OpenToRead(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> OpenToWrite(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> CreateUnnamed(
      const std::string& folder) override;
  absl::Status Publish(File* unnamed, const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::StatusOr<std::vector<FolderEntry>> List(
      const std::string& folder) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> Lock(const std::string& path) override;

 private:
  class OpenFile;
  class HeldLock;

  // A file's bytes as readers see them, and as the disk has them.
  struct Content {
    std::string bytes;
    std::string on_disk;
  };
  using Names = std::map<std::string, std::shared_ptr<Content>>;

  // OK, or the error of a change that must fail.
  absl::Status Change();
  // Writes any of the sectors that differ to the disk.
  void WriteSomeSectors(Content* content);

  RandomGenerator* const random_;
  int64_t changes_ = 0;
  int64_t changes_left_ = 0;
  absl::Status error_;
  bool is_once_ = false;
  Names names_;
  Names names_on_disk_;
  std::set<std::string> folders_ = {"."};
  std::set<std::string> locks_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_STORAGE_FAULT_FILES_H_
