// SPDX-License-Identifier: Apache-2.0
//
// Mapping a file, telling its format and finding a matrix in it.

#include "cli/tensor_files/tensor_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/tensor_files/npy.h"

namespace qgemm {
namespace {

absl::Status PosixError(absl::string_view operation, const std::string& path) {
  const int error = errno;
  const std::string message =
      absl::StrCat(operation, " ", path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES) return absl::PermissionDeniedError(message);
  return absl::UnknownError(message);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::StatusOr<absl::Span<const uint8_t>> MapFile(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return PosixError("open", path);
  struct stat status;
  if (fstat(file.get(), &status) != 0) return PosixError("stat", path);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file"));
  }
  if (status.st_size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the file is empty"));
  }
  const size_t size = static_cast<size_t>(status.st_size);
  void* const address =
      mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) return PosixError("map", path);
  return absl::MakeConstSpan(static_cast<const uint8_t*>(address), size);
}

bool StartsWithBytes(absl::Span<const uint8_t> bytes, absl::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

absl::StatusOr<std::vector<TensorEntry>> Parse(
    const std::string& path, absl::Span<const uint8_t> bytes) {
  if (StartsWithBytes(bytes, "GGUF")) return ParseGguf(bytes);
  if (StartsWithBytes(bytes, "\x93NUMPY")) {
    ASSIGN_OR_RETURN(TensorEntry tensor, ParseNpy(bytes));
    return std::vector<TensorEntry>{std::move(tensor)};
  }
  if (absl::EndsWith(path, ".safetensors")) return ParseSafetensors(bytes);
  return absl::InvalidArgumentError(
      "neither a .safetensors, nor a GGUF, nor a NumPy file");
}

std::string NamesOf(const std::vector<TensorEntry>& tensors) {
  constexpr size_t kShown = 8;
  std::string names;
  for (size_t i = 0; i < std::min(kShown, tensors.size()); ++i) {
    absl::StrAppend(&names, i > 0 ? ", " : "", Quoted(tensors[i].name));
  }
  if (tensors.size() > kShown) {
    absl::StrAppend(&names, " and ", tensors.size() - kShown, " more");
  }
  return names;
}

}  // namespace

FloatType FloatTypeOf(TensorType type) {
  switch (type) {
    case TensorType::kFloat16:
      return FloatType::kFloat16;
    case TensorType::kBFloat16:
      return FloatType::kBFloat16;
    case TensorType::kFloat32:
    case TensorType::kQ4_0:
      return FloatType::kFloat32;
  }
  return FloatType::kFloat32;
}

std::vector<float> ToFloats(const TensorMatrix& matrix) {
  const FloatType type = FloatTypeOf(matrix.type);
  const int64_t element_bytes = SizeOf(type);
  std::vector<float> values(matrix.bytes.size() / element_bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadFloat(type, matrix.bytes.data() + i * element_bytes);
  }
  return values;
}

absl::StatusOr<std::unique_ptr<TensorFile>> TensorFile::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, MapFile(path));
  std::unique_ptr<TensorFile> file(new TensorFile(path, bytes));
  absl::StatusOr<std::vector<TensorEntry>> tensors = Parse(path, bytes);
  if (!tensors.ok()) {
    return absl::Status(tensors.status().code(),
                        absl::StrCat(path, ": ", tensors.status().message()));
  }
  file->tensors_ = *std::move(tensors);
  return file;
}

TensorFile::TensorFile(std::string path, absl::Span<const uint8_t> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

TensorFile::~TensorFile() {
  munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

absl::StatusOr<TensorMatrix> TensorFile::Matrix(absl::string_view name) const {
  const auto found = std::find_if(
      tensors_.begin(), tensors_.end(), [&](const TensorEntry& tensor) {
        return tensor.name == name || (name.empty() && tensors_.size() == 1);
      });
  if (found == tensors_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", Quoted(name),
                                            "; there are ", tensors_.size(),
                                            ": ", NamesOf(tensors_)));
  }
  if (!found->type.has_value()) {
    return absl::UnimplementedError(absl::StrCat(
        path_, ": tensor ", Quoted(found->name), " has the type ",
        Quoted(found->type_name), "; F32, F16, BF16 and Q4_0 are read"));
  }
  if (found->shape.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": tensor ", Quoted(found->name), " has the shape ",
                     ShapeText(found->shape), "; a matrix [n, k] is needed"));
  }
  TensorMatrix matrix;
  matrix.n = found->shape[0];
  matrix.k = found->shape[1];
  matrix.type = *found->type;
  matrix.bytes = bytes_.subspan(found->offset, found->size_bytes);
  return matrix;
}

}  // namespace qgemm
