// SPDX-License-Identifier: Apache-2.0
//
// A folder for sockets and files of one test.

#ifndef QGEMM_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
#define QGEMM_TESTS_SUPPORT_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "base/check.h"

namespace qgemm {

// Removed with all in it at the end. Its path is short: that of a Unix socket
// has at most 107 bytes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/qgemm_XXXXXX";
    CHECK(mkdtemp(name) != nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
