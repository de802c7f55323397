// SPDX-License-Identifier: Apache-2.0
//
// The file system of Linux. An unnamed file is one of O_TMPFILE, of which a
// crash leaves nothing; where the disk or the process has no such, it is one
// with a temporary name.

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "server/storage/file_system.h"

namespace qgemm {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EROFS:
    case EACCES:
    case EPERM:
    case ENOTDIR:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status Failed(absl::string_view operation, absl::string_view path,
                    int error = errno) {
  return absl::Status(
      CodeOf(error), absl::StrCat(operation, " ", path, ": ", strerror(error)));
}

// A sector that cannot be read is damage: another try would end the same.
absl::Status Unreadable(absl::string_view path) {
  return absl::DataLossError(absl::StrCat("read ", path, ": ", strerror(EIO)));
}

class SystemFile final : public File {
 public:
  // `remove` is a temporary path that goes with the file; empty: none.
  SystemFile(FileDescriptor fd, std::string path, std::string remove = "")
      : fd_(std::move(fd)),
        path_(std::move(path)),
        remove_(std::move(remove)) {}
  ~SystemFile() override {
    if (!remove_.empty()) unlink(remove_.c_str());
  }

  absl::StatusOr<int64_t> ReadAt(int64_t offset,
                                 absl::Span<char> bytes) const override {
    int64_t done = 0;
    while (done < static_cast<int64_t>(bytes.size())) {
      const ssize_t read = pread(fd_.get(), bytes.data() + done,
                                 bytes.size() - done, offset + done);
      if (read < 0 && errno == EINTR) continue;
      if (read < 0 && errno == EIO) return Unreadable(path_);
      if (read < 0) return Failed("read", path_);
      if (read == 0) break;
      done += read;
    }
    return done;
  }

  absl::Status WriteAt(int64_t offset, absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Failed("write", path_);
      bytes.remove_prefix(written);
      offset += written;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> SizeBytes() const override {
    struct stat state;
    if (fstat(fd_.get(), &state) != 0) return Failed("look at", path_);
    return static_cast<int64_t>(state.st_size);
  }

  absl::Status Truncate(int64_t size_bytes) override {
    if (ftruncate(fd_.get(), size_bytes) != 0) return Failed("cut", path_);
    return absl::OkStatus();
  }

  absl::Status Allocate(int64_t size_bytes) override {
    // Not posix_fallocate, which writes zeros where the disk has no such call.
    if (size_bytes > 0 && fallocate(fd_.get(), 0, 0, size_bytes) != 0 &&
        errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
      return Failed("take space for", path_);
    }
    return absl::OkStatus();
  }

  void StartWriteback(int64_t offset, int64_t bytes) override {
    sync_file_range(fd_.get(), offset, bytes, SYNC_FILE_RANGE_WRITE);
  }

  absl::Status Sync() override {
    if (fdatasync(fd_.get()) != 0) return Failed("sync", path_);
    return absl::OkStatus();
  }

  int fd() const { return fd_.get(); }
  const std::string& temporary_path() const { return remove_; }
  void Keep() { remove_.clear(); }

 private:
  const FileDescriptor fd_;
  const std::string path_;  // for errors
  std::string remove_;
};

class SystemFiles final : public FileSystem {
 public:
  explicit SystemFiles(const std::string& root) : root_(root) {}

  absl::StatusOr<std::unique_ptr<File>> OpenToRead(
      const std::string& path) override {
    return Open(path, O_RDONLY, "open");
  }

  absl::StatusOr<std::unique_ptr<File>> OpenToWrite(
      const std::string& path) override {
    return Open(path, O_RDWR | O_CREAT, "open for writing");
  }

  absl::StatusOr<std::unique_ptr<File>> CreateUnnamed(
      const std::string& folder) override {
    const std::string shown = absl::StrCat("a file in ", folder);
    // A name is given through /proc.
    if (access("/proc/self/fd", X_OK) == 0) {
      FileDescriptor fd(open(Full(folder).c_str(),
                             O_TMPFILE | O_RDWR | O_CLOEXEC, kFileMode));
      if (fd.valid()) return std::make_unique<SystemFile>(std::move(fd), shown);
      if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) {
        return Failed("create", shown);
      }
    }
    std::string path =
        Full(absl::StrCat(folder, "/", kTemporaryPrefix, "XXXXXX"));
    FileDescriptor fd(mkostemp(path.data(), O_CLOEXEC));
    if (!fd.valid()) return Failed("create", shown);
    return std::make_unique<SystemFile>(std::move(fd), shown, path);
  }

  absl::Status Publish(File* unnamed, const std::string& path) override {
    auto* const file = static_cast<SystemFile*>(unnamed);
    std::string temporary = file->temporary_path();
    if (temporary.empty()) {
      if (Link(*file, Full(path))) return absl::OkStatus();
      if (errno != EEXIST) return Failed("name", path);
      temporary = Full(absl::StrCat(
          path.substr(0, path.rfind('/') + 1), kTemporaryPrefix, getpid(), "-",
          next_temporary_.fetch_add(1, std::memory_order_relaxed)));
      if (!Link(*file, temporary)) return Failed("name", path);
    }
    if (rename(temporary.c_str(), Full(path).c_str()) != 0) {
      const int error = errno;
      unlink(temporary.c_str());
      file->Keep();
      return Failed("name", path, error);
    }
    file->Keep();
    return absl::OkStatus();
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(Full(from).c_str(), Full(to).c_str()) != 0) {
      return Failed("rename", absl::StrCat(from, " to ", to));
    }
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(Full(path).c_str()) != 0) return Failed("remove", path);
    return absl::OkStatus();
  }

  absl::Status MakeFolder(const std::string& path) override {
    if (mkdir(Full(path).c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return Failed("make folder", path);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<FolderEntry>> List(
      const std::string& folder) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> opened(
        opendir(Full(folder).c_str()), &closedir);
    if (opened == nullptr) return Failed("list", folder);
    std::vector<FolderEntry> entries;
    while (true) {
      errno = 0;
      const dirent* const entry = readdir(opened.get());
      if (entry == nullptr && errno != 0) return Failed("list", folder);
      if (entry == nullptr) break;
      const absl::string_view name = entry->d_name;
      struct stat state;
      if (name == "." || name == ".." ||
          fstatat(dirfd(opened.get()), entry->d_name, &state,
                  AT_SYMLINK_NOFOLLOW) != 0) {
        continue;
      }
      entries.push_back(
          {std::string(name), state.st_size, S_ISDIR(state.st_mode)});
    }
    std::sort(entries.begin(), entries.end(),
              [](const FolderEntry& one, const FolderEntry& other) {
                return one.name < other.name;
              });
    return entries;
  }

  absl::Status SyncFolder(const std::string& path) override {
    const FileDescriptor fd(
        open(Full(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return Failed("open folder", path);
    if (fsync(fd.get()) != 0) return Failed("sync folder", path);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<File>> Lock(const std::string& path) override {
    const int fd =
        open(Full(path).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
    if (fd < 0) return Failed("open for writing", path);
    auto file = std::make_unique<SystemFile>(FileDescriptor(fd), path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return file;
    if (errno != EWOULDBLOCK) return Failed("lock", path);
    return absl::UnavailableError(
        absl::StrCat("another process holds the lock of ", path));
  }

 private:
  static constexpr mode_t kFileMode = 0600;
  static constexpr mode_t kFolderMode = 0700;

  static bool Link(const SystemFile& file, const std::string& path) {
    return linkat(AT_FDCWD, absl::StrCat("/proc/self/fd/", file.fd()).c_str(),
                  AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
  }

  std::string Full(const std::string& path) const {
    return absl::StrCat(root_, "/", path);
  }

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, int flags,
                                             absl::string_view operation) {
    FileDescriptor fd(
        open(Full(path).c_str(), flags | O_CLOEXEC | O_NOFOLLOW, kFileMode));
    if (!fd.valid()) return Failed(operation, path);
    return std::make_unique<SystemFile>(std::move(fd), path);
  }

  const std::string root_;
  std::atomic<int64_t> next_temporary_{0};
};

}  // namespace

std::unique_ptr<FileSystem> NewSystemFiles(const std::string& root) {
  return std::make_unique<SystemFiles>(root);
}

}  // namespace qgemm
