// SPDX-License-Identifier: Apache-2.0
//
// The file whole, then its text.

#include "kernels/cuda/tuning/tuning_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm::cuda {
namespace {

// More than a tuning has; ParseTuning refuses what fills it.
constexpr size_t kMostBytes = (64 << 10) + 1;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::StatusOr<std::string> ReadText(const std::string& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(
      std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const int error = errno;
    const std::string message =
        absl::StrCat("tuning file ", path, ": ", std::strerror(error));
    if (error == ENOENT) return absl::NotFoundError(message);
    return absl::InvalidArgumentError(message);
  }
  std::string text(kMostBytes, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {  // a folder, say
    return absl::InvalidArgumentError(
        absl::StrCat("tuning file ", path, ": ", std::strerror(errno)));
  }
  return text;
}

}  // namespace

absl::StatusOr<Tuning> ReadTuningFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  absl::StatusOr<Tuning> tuning = ParseTuning(text);
  if (tuning.ok()) return tuning;
  return absl::Status(
      tuning.status().code(),
      absl::StrCat("tuning file ", path, ": ", tuning.status().message()));
}

}  // namespace qgemm::cuda
