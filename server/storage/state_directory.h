// SPDX-License-Identifier: Apache-2.0
//
// The folder that outlives the server (docs/storage.md): a file for each layer,
// and the log of the names by which clients hold them.

#ifndef QGEMM_SERVER_STORAGE_STATE_DIRECTORY_H_
#define QGEMM_SERVER_STORAGE_STATE_DIRECTORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/byte_budget.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "kernels/formats/weights_spec.h"
#include "server/storage/file_system.h"
#include "server/storage/image_files.h"
#include "server/storage/names_log.h"
#include "server/storage/weights_file.h"

namespace qgemm {

struct StateDirectoryOptions {
  int64_t max_bytes = 0;  // --state_bytes, of all layers' files; 0: no bound
  ImageFilesOptions images;
};

// Findings of an opening that an operator should know.
struct StateRecovery {
  bool log_was_damaged = false;
  // Files that nothing holds: of uploads and unloads that a crash cut off.
  int64_t removed_files = 0;
  int64_t damaged_files = 0;  // set aside
  // Names, and holds without one, whose layer has no sound file.
  std::vector<NameChange> lost;
};

// An upload that its client continues when it was cut off, in another process
// too.
struct UploadKey {
  std::string owner;  // the client's id; empty without an access table
  Sha256Digest id = {};
};

// A layer that the directory has.
struct StoredLayer {
  std::string id;
  WeightsSpec spec;
};

// Thread-safe. One process at a time has a directory open. A file is there for
// as long as a name or a client holds its id, or a FileHold does.
class StateDirectory {
 public:
  // Keeps a file of which no name tells yet. Move-only; must not outlive the
  // directory.
  class FileHold {
   public:
    FileHold() = default;  // empty
    FileHold(FileHold&& other) noexcept { *this = std::move(other); }
    FileHold& operator=(FileHold&& other) noexcept;
    ~FileHold() { Release(); }

   private:
    friend class StateDirectory;

    void Release();

    StateDirectory* directory_ = nullptr;
    std::string id_;
  };

  // The file of an upload in progress; nothing of it is left unless it is
  // kept, or left to the next process. Must not outlive the directory. Not
  // thread-safe.
  class Upload {
   public:
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;
    ~Upload();

    // Errors: WeightsFileWriter's.
    absl::Status Append(absl::string_view bytes) {
      uploaded_bytes_->fetch_add(static_cast<int64_t>(bytes.size()),
                                 std::memory_order_relaxed);
      return writer_.Append(bytes);
    }

    // Leaves the file of an upload with a key where the next process finds it.
    void Leave() { part_path_.clear(); }

   private:
    friend class StateDirectory;

    Upload(StateDirectory* directory, std::string part_path,
           WeightsFileWriter writer, ByteReservation reservation)
        : files_(directory->files_),
          uploaded_bytes_(&directory->uploaded_bytes_),
          part_path_(std::move(part_path)),
          writer_(std::move(writer)),
          reservation_(std::move(reservation)) {}

    FileSystem* const files_;
    std::atomic<int64_t>* const uploaded_bytes_;
    std::string part_path_;  // empty: the file has no name yet
    WeightsFileWriter writer_;
    ByteReservation reservation_;
  };

  // Names in the directory (docs/storage.md#files).
  static constexpr absl::string_view kLock = "lock";
  static constexpr absl::string_view kLog = "names.log";
  static constexpr absl::string_view kLayers = "layers";
  static constexpr absl::string_view kUploads = "uploads";
  static constexpr absl::string_view kDamaged = "damaged";
  static constexpr absl::string_view kSuffix = ".qgw";
  // The path of a layer's file.
  static std::string PathOf(const std::string& id);

  // OK if the folder of `files` is a state directory that this program reads.
  // Errors: NOT_FOUND (it is none yet), FAILED_PRECONDITION (it is of another
  // version, or something else).
  static absl::Status CheckVersion(FileSystem* files);

  // Opens the directory, which is made if it is empty; sets damaged files
  // aside, and removes those that nothing holds. `files` is of the folder and
  // must outlive the directory. Errors: UNAVAILABLE (another process has it
  // open), FAILED_PRECONDITION (of a newer version, not writable, more bytes
  // than the bound), FileSystem's.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Open(
      FileSystem* files, const StateDirectoryOptions& options);

  // As the opening found it.
  const StateRecovery& recovery() const { return recovery_; }
  NameTable table() const;
  std::vector<StoredLayer> layers() const;

  // Begins the file of a valid spec; with a key, one that another process can
  // continue, in the place of one that it might have continued. A key has one
  // upload at a time. Errors: RESOURCE_EXHAUSTED (the bound, the disk),
  // FileSystem's.
  absl::StatusOr<std::unique_ptr<Upload>> Begin(const WeightsSpec& spec,
                                                const UploadKey* key = nullptr);

  // The spec of the upload that a process before this one has left. Errors:
  // NOT_FOUND.
  absl::StatusOr<WeightsSpec> FindPart(const UploadKey& key) const;
  // Hands over that upload's bytes and returns its file, to be continued behind
  // them. On an error nothing of it is left. Errors: NOT_FOUND (there is none
  // of that spec), FileSystem's, those of `consume`.
  absl::StatusOr<std::unique_ptr<Upload>> Continue(
      const UploadKey& key, const WeightsSpec& spec,
      WeightsFileReader::Consume consume);
  // Takes back an upload that Continue returned and nothing was appended to, to
  // be continued later.
  void PutBack(std::unique_ptr<Upload> upload);
  // Removes what processes before this one have left and nobody has continued.
  void DropParts();

  // Puts the file of a whole upload on the disk, under its id. On an error
  // nothing of it is left. Errors: FileSystem's.
  absl::StatusOr<FileHold> Keep(std::unique_ptr<Upload> upload,
                                const Sha256Digest& id);

  // Puts the changes on the disk, and then removes the files that nothing holds
  // any more. On an error nothing has changed. Errors: FileSystem's.
  absl::Status Append(std::vector<NameChange> changes);

  // Opens a layer's file. Errors: NOT_FOUND, those of WeightsFileReader::Open.
  absl::StatusOr<WeightsFileReader> Read(const std::string& id) const;

  // Moves a damaged file to where operators can look at it, unless it is sound;
  // its id has no file from then on. Reads the whole file.
  void SetAside(const std::string& id);

  bool Has(const std::string& id) const;
  int64_t file_count() const;
  int64_t used_bytes() const { return budget_.used_bytes(); }
  int64_t max_bytes() const { return options_.max_bytes; }

  // Images of layers, which go with the layers' files.
  ImageFiles* images() { return images_.get(); }
  // Grows while uploads write.
  int64_t uploaded_bytes() const {
    return uploaded_bytes_.load(std::memory_order_relaxed);
  }

 private:
  struct Entry {
    bool is_there = false;
    WeightsSpec spec;  // of a file that is there
    ByteReservation reservation;
    int64_t holds = 0;
  };

  static std::string PartPathOf(const UploadKey& key);

  StateDirectory(FileSystem* files, const StateDirectoryOptions& options);

  absl::Status Recover();
  absl::Status MakeFolders();
  absl::Status WriteVersion();
  absl::Status RemoveTemporaries(const std::string& folder);
  // Looks at a file of the opening; an error only if the disk failed.
  absl::Status Adopt(const FolderEntry& file);
  // Takes note of the uploads that were left.
  absl::Status AdoptParts();
  // Writes the log anew once all that nothing holds was set aside: before, a
  // process that opens the directory has to find the damage again.
  absl::Status ReplaceDamagedLog();
  // Drops what the log says of layers that have no file.
  absl::Status DropLost();
  absl::Status SetAsideFile(const std::string& id);
  // Removes the file unless something holds it; while the log is doubtful, the
  // next Append that succeeds does that.
  void RemoveUnheld(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseHold(const std::string& id);

  FileSystem* const files_;
  const StateDirectoryOptions options_;
  ByteBudget budget_;
  std::unique_ptr<File> lock_;
  StateRecovery recovery_;
  std::unique_ptr<ImageFiles> images_;
  std::atomic<int64_t> uploaded_bytes_{0};
  // Held for the disk's time: those who wait for it wait for the disk anyway.
  mutable Mutex mutex_;
  std::unique_ptr<NamesLog> log_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // Ids of files that may have to go once the log is no longer doubtful.
  std::set<std::string> postponed_ ABSL_GUARDED_BY(mutex_);
  // By path: uploads of processes before this one.
  std::map<std::string, ByteReservation> parts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_STORAGE_STATE_DIRECTORY_H_
