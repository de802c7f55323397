// SPDX-License-Identifier: Apache-2.0

#include "server/tls/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

absl::Status Failed(absl::string_view step) {
  return absl::Status(absl::ErrnoToStatusCode(errno),
                      absl::StrCat(step, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryFile>> MemoryFile::Create(
    absl::string_view text) {
  std::unique_ptr<MemoryFile> file(new MemoryFile);
  ASSIGN_OR_RETURN(file->file_, file->MakeFile(text));
  file->path_ = absl::StrCat("/proc/self/fd/", file->file_.get());
  if (access(file->path_.c_str(), R_OK) != 0) {
    return Failed(absl::StrCat("open ", file->path_));
  }
  return file;
}

absl::Status MemoryFile::Replace(absl::string_view text) {
  ASSIGN_OR_RETURN(const FileDescriptor next, MakeFile(text));
  if (dup3(next.get(), file_.get(), O_CLOEXEC) < 0) {
    return Failed("replace a file in memory");
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> MemoryFile::MakeFile(absl::string_view text) {
  FileDescriptor file(memfd_create("qgemm", MFD_CLOEXEC));
  if (!file.valid()) return Failed("create a file in memory");
  if (fchmod(file.get(), 0400) != 0 ||
      write(file.get(), text.data(), text.size()) !=
          static_cast<ssize_t>(text.size())) {
    return Failed("write a file in memory");
  }
  modified_seconds_ =
      std::max<int64_t>(std::time(nullptr), modified_seconds_ + 1);
  const timespec modified = {modified_seconds_, 0};
  const timespec times[] = {modified, modified};
  if (futimens(file.get(), times) != 0) {
    return Failed("set the time of a file in memory");
  }
  return file;
}

}  // namespace qgemm
