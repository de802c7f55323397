// SPDX-License-Identifier: Apache-2.0
//
// Names, and the layers that they stand for, as they survive the process: a log
// of changes (docs/storage.md#names-log), each of which is on the disk before
// it is acknowledged.

#ifndef QGEMM_SERVER_STORAGE_NAMES_LOG_H_
#define QGEMM_SERVER_STORAGE_NAMES_LOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/file_system.h"

namespace qgemm {

// A change of what holds layers: names, and clients without a name.
struct NameChange {
  enum class Kind : uint8_t {
    kBind = 1,     // `name` of `owner` stands for `id`
    kDrop = 2,     // `name` stands for nothing
    kHold = 3,     // `owner` holds `id` without a name
    kRelease = 4,  // and does so no more
  };

  Kind kind = Kind::kBind;
  std::string name;
  std::string owner;  // a client's id; empty without an access table
  std::string id;     // 64 lower-case hexadecimal digits; none of a kDrop
  // Number of the binding; a log sets it for those that have 0.
  uint64_t generation = 0;

  friend bool operator==(const NameChange& a, const NameChange& b) {
    return a.kind == b.kind && a.name == b.name && a.owner == b.owner &&
           a.id == b.id && a.generation == b.generation;
  }
};

// Holders of layers at one moment. Not thread-safe.
class NameTable {
 public:
  struct Bound {
    std::string id;
    std::string owner;
    uint64_t generation = 0;  // the order in which names were bound
  };

  // A client that binds a name to a layer holds it by that alone from then on.
  void Apply(const NameChange& change);

  // Changes that make an empty table into this one.
  std::vector<NameChange> Changes() const;

  const std::map<std::string, Bound>& names() const { return names_; }
  // (id, owner) without a name.
  const std::set<std::pair<std::string, std::string>>& holds() const {
    return holds_;
  }
  bool Holds(const std::string& id) const { return references_.count(id) != 0; }

 private:
  void Refer(const std::string& id) { ++references_[id]; }
  void Unrefer(const std::string& id);

  std::map<std::string, Bound> names_;
  std::set<std::pair<std::string, std::string>> holds_;
  std::map<std::string, int64_t> references_;  // by id
};

// Changes that were made at once, and are read at once or not at all.
struct NamesRecord {
  uint64_t sequence = 0;
  std::vector<NameChange> changes;
};

// Bytes of a log.
std::string EncodeNamesHeader();
std::string EncodeNamesRecord(const NamesRecord& record);

// A log as it was read.
struct NamesLogContent {
  NameTable table;
  uint64_t last_sequence = 0;
  // Bytes up to the end of the last record that was read.
  int64_t valid_bytes = 0;
  // The bytes behind them are the begin of a record that a crash cut off.
  bool is_torn = false;
  // Records between others, or the header, cannot be read: changes are lost.
  bool is_damaged = false;
};

// Reads what can be read. FAILED_PRECONDITION if the log is of a newer version.
absl::StatusOr<NamesLogContent> DecodeNamesLog(absl::string_view bytes);

// The log in a file. Not thread-safe.
class NamesLog {
 public:
  // Reads the log of that path, in the root of `files`, and makes one if there
  // is none. One that is damaged is copied to `damaged_path`, and stays as it
  // is until an Append or a Compact begins a new one with what could be read:
  // the damage is found again by whoever opens it before. `files` must outlive
  // the log. Errors: FAILED_PRECONDITION (a newer version), FileSystem's.
  static absl::StatusOr<std::unique_ptr<NamesLog>> Open(
      FileSystem* files, const std::string& path,
      const std::string& damaged_path);

  // Applies the changes once they are on the disk, all of them. On an error
  // none was applied; while is_doubtful() a process that reads the log may find
  // them all the same. Errors: RESOURCE_EXHAUSTED (a record of more bytes than
  // are read back, 64 MiB), FileSystem's.
  absl::Status Append(std::vector<NameChange> changes);

  // Writes the log anew, without what no longer matters.
  absl::Status Compact();

  const NameTable& table() const { return table_; }
  int64_t size_bytes() const { return size_bytes_; }
  bool was_damaged() const { return was_damaged_; }
  // The file may say something else than table() does, until an Append or a
  // Compact succeeds: what either may hold must stay.
  bool is_doubtful() const { return is_doubtful_; }

 private:
  NamesLog(FileSystem* files, const std::string& path)
      : files_(files), path_(path) {}

  // Takes what a failed write may have left behind the last record off the
  // disk.
  absl::Status CutOff();

  FileSystem* const files_;
  const std::string path_;
  std::unique_ptr<File> file_;
  NameTable table_;
  uint64_t last_sequence_ = 0;
  int64_t size_bytes_ = 0;
  int64_t compacted_bytes_ = 0;  // when it was written anew
  // A write failed, and so did CutOff: it is unknown what the file has beyond
  // its size, or which file the next process finds.
  bool is_doubtful_ = false;
  bool was_damaged_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_STORAGE_NAMES_LOG_H_
