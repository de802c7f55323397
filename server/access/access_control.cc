// SPDX-License-Identifier: Apache-2.0

#include "server/access/access_control.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// One byte more than a table may have.
constexpr size_t kMostBytes = (size_t{4} << 20) + 1;

absl::Status CannotRead(const std::string& path, int error) {
  const std::string message =
      absl::StrCat("--access_table = \"", path, "\": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::InvalidArgumentError(message);
}

// Whoever may write the table has every right.
absl::Status CheckFile(const std::string& path, int fd) {
  struct stat file;
  if (fstat(fd, &file) != 0) return CannotRead(path, errno);
  if (!S_ISREG(file.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--access_table = \"", path, "\" is not a regular file"));
  }
  if ((file.st_mode & S_IWOTH) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("--access_table = \"", path,
                     "\" may be written by every user of the host; chmod o-w"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  // O_NONBLOCK: to open a pipe does not wait for its other end.
  const FileDescriptor fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return CannotRead(path, errno);
  RETURN_IF_ERROR(CheckFile(path, fd.get()));
  std::string text(kMostBytes, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(fd.get(), &text[size], text.size() - size);
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotRead(path, errno);
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  return text;
}

}  // namespace

AccessControl::AccessControl(std::string path, ServerMetrics* metrics)
    : path_(std::move(path)),
      metrics_(metrics),
      table_(std::make_shared<AccessTable>()),
      watch_({path_}) {}

absl::Status AccessControl::Start() {
  RETURN_IF_ERROR(Reload());
  watch_.Start([this] {
    // The file is not at fault, and may stay as it is.
    if (absl::IsResourceExhausted(Reload())) watch_.TellAgain();
  });
  return absl::OkStatus();
}

absl::Status AccessControl::Reload() {
  MutexLock lock(&reload_mutex_);
  const absl::Status status = Read();
  if (!status.ok()) {
    EVENT(ERROR, "access_table_refused").With("error", status.message());
    metrics_->AccessReloadFailed();
  }
  return status;
}

absl::Status AccessControl::Read() {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path_));
  if (text == text_) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const AccessTable>> table =
      AccessTable::Parse(text);
  if (!table.ok()) {
    return absl::Status(table.status().code(),
                        absl::StrCat("--access_table = \"", path_,
                                     "\": ", table.status().message()));
  }
  EVENT(INFO, "access_table_loaded")
      .With("table", path_)
      .With("clients", (*table)->size());
  text_ = std::move(text);
  MutexLock lock(&mutex_);
  table_ = *std::move(table);
  generation_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

std::shared_ptr<const AccessTable> AccessControl::table() const {
  MutexLock lock(&mutex_);
  return table_;
}

}  // namespace qgemm
