// SPDX-License-Identifier: Apache-2.0
//
// Reading a file, telling its format and finding a matrix in it.

#include "cli/tensor_files/tensor_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/tensor_files/byte_reader.h"
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

absl::StatusOr<FileDescriptor> OpenFile(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return PosixError("open", path);
  return file;
}

// Returns the size of a file that has bytes.
absl::StatusOr<int64_t> SizeOfFile(const FileDescriptor& file,
                                   const std::string& path) {
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
  return int64_t{status.st_size};
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

absl::StatusOr<std::unique_ptr<TensorFile>> TensorFile::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(FileDescriptor descriptor, OpenFile(path));
  ASSIGN_OR_RETURN(const int64_t size_bytes, SizeOfFile(descriptor, path));
  std::unique_ptr<TensorFile> file(
      new TensorFile(path, std::move(descriptor), size_bytes));
  absl::StatusOr<std::vector<TensorEntry>> tensors = file->Parse();
  if (!tensors.ok()) return file->Error(tensors.status());
  file->tensors_ = *std::move(tensors);
  return file;
}

TensorFile::TensorFile(std::string path, FileDescriptor descriptor,
                       int64_t size_bytes)
    : path_(std::move(path)),
      descriptor_(std::move(descriptor)),
      size_bytes_(size_bytes) {}

absl::StatusOr<std::vector<TensorEntry>> TensorFile::Parse() const {
  const auto read_at = [this](int64_t offset, absl::Span<uint8_t> buffer) {
    return ReadAt(offset, buffer);
  };
  constexpr absl::string_view kGguf = "GGUF";
  constexpr absl::string_view kNpy = "\x93NUMPY";
  ByteReader start(size_bytes_, read_at);
  ASSIGN_OR_RETURN(const absl::string_view magic,
                   start.ReadBytes(std::min<int64_t>(size_bytes_, kNpy.size()),
                                   "the magic number"));
  ByteReader reader(size_bytes_, read_at);
  if (absl::StartsWith(magic, kGguf)) return ParseGguf(&reader);
  if (absl::StartsWith(magic, kNpy)) {
    ASSIGN_OR_RETURN(TensorEntry tensor, ParseNpy(&reader));
    return std::vector<TensorEntry>{std::move(tensor)};
  }
  if (absl::EndsWith(path_, ".safetensors")) return ParseSafetensors(&reader);
  return absl::InvalidArgumentError(
      "neither a .safetensors, nor a GGUF, nor a NumPy file");
}

absl::Status TensorFile::ReadAt(int64_t offset,
                                absl::Span<uint8_t> buffer) const {
  while (!buffer.empty()) {
    const ssize_t count =
        pread(descriptor_.get(), buffer.data(), buffer.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnknownError(
          absl::StrCat("cannot be read: ", std::strerror(errno)));
    }
    if (count == 0) {
      struct stat status = {};
      fstat(descriptor_.get(), &status);
      return absl::FailedPreconditionError(
          absl::StrCat("the file changed while it was read: ", status.st_size,
                       " of ", size_bytes_, " bytes are left"));
    }
    offset += count;
    buffer.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status TensorFile::Error(const absl::Status& status) const {
  return absl::Status(status.code(),
                      absl::StrCat(path_, ": ", status.message()));
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
  matrix.offset = found->offset;
  matrix.size_bytes = found->size_bytes;
  return matrix;
}

absl::Status TensorFile::Read(const TensorMatrix& matrix, int64_t offset,
                              absl::Span<uint8_t> buffer) const {
  const absl::Status status = ReadAt(matrix.offset + offset, buffer);
  return status.ok() ? status : Error(status);
}

absl::StatusOr<std::vector<float>> TensorFile::ReadFloats(
    const TensorMatrix& matrix) const {
  constexpr int64_t kPieceElements = 256 << 10;
  const FloatType type = FloatTypeOf(matrix.type);
  const int64_t element_bytes = SizeOf(type);
  std::vector<float> values(matrix.size_bytes / element_bytes);
  std::vector<uint8_t> piece(kPieceElements * element_bytes);
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < count; i += kPieceElements) {
    const int64_t elements = std::min(kPieceElements, count - i);
    RETURN_IF_ERROR(
        Read(matrix, i * element_bytes,
             absl::MakeSpan(piece).first(elements * element_bytes)));
    for (int64_t j = 0; j < elements; ++j) {
      values[i + j] = LoadFloat(type, piece.data() + j * element_bytes);
    }
  }
  return values;
}

}  // namespace qgemm
