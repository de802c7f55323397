// SPDX-License-Identifier: Apache-2.0
//
// Write, then rename.

#include "server/port_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace qgemm {

absl::Status WritePortFile(const std::string& path,
                           absl::Span<const int> ports) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  std::ofstream file(temporary);
  for (const int port : ports) file << port << "\n";
  file.close();
  if (!file) {
    const int error = errno;
    std::remove(temporary.c_str());
    return absl::UnknownError(absl::StrCat("write port file ", temporary, ": ",
                                           std::strerror(error)));
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    return absl::UnknownError(
        absl::StrCat("rename port file to ", path, ": ", std::strerror(error)));
  }
  return absl::OkStatus();
}

}  // namespace qgemm
