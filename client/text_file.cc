// SPDX-License-Identifier: Apache-2.0

#include "client/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace qgemm {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         absl::string_view option) {
  const auto unreadable = [&] {
    return absl::NotFoundError(
        absl::StrCat(option, " '", path, "': ", std::strerror(errno)));
  };
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return unreadable();
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t count = read(file.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unreadable();
    if (count == 0) return text;
    text.append(buffer, count);
    if (text.size() > kMaxBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          option, " '", path, "' has more than ", kMaxBytes, " bytes"));
    }
  }
}

}  // namespace qgemm
