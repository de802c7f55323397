// SPDX-License-Identifier: Apache-2.0
//
// Opens a file of tensors, whichever of the formats it has, and reads its
// matrices. The formats are in tensor.h and npy.h.

#ifndef QGEMM_CLI_TENSOR_FILES_TENSOR_FILE_H_
#define QGEMM_CLI_TENSOR_FILES_TENSOR_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "cli/tensor_files/tensor.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// A weight matrix of a file.
struct TensorMatrix {
  int64_t n = 0;  // rows: output features
  int64_t k = 0;  // columns: input features
  TensorType type = TensorType::kFloat32;
  int64_t offset = 0;  // of its first byte in the file
  int64_t size_bytes = 0;
};

// The element type of a matrix that is not kQ4_0.
FloatType FloatTypeOf(TensorType type);

// An open file. Immutable and thread-safe. It is read, not mapped: if another
// process shortens it meanwhile, that is an error and no SIGBUS.
class TensorFile {
 public:
  // The format is recognized by content; safetensors, which has no magic
  // number, by the name's ending. Reads the list of tensors alone. Errors, with
  // the path and what is wrong: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT,
  // FAILED_PRECONDITION (another process shortened the file).
  static absl::StatusOr<std::unique_ptr<TensorFile>> Open(
      const std::string& path);

  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::vector<TensorEntry>& tensors() const { return tensors_; }

  // The matrix called `name`; an empty name stands for a file's only tensor.
  // Errors: NOT_FOUND (lists what there is), INVALID_ARGUMENT (not a matrix),
  // UNIMPLEMENTED (element type).
  absl::StatusOr<TensorMatrix> Matrix(absl::string_view name) const;

  // Fills `buffer` with the matrix's bytes from `offset` on. Errors:
  // FAILED_PRECONDITION (another process shortened the file), UNKNOWN (the file
  // system's).
  absl::Status Read(const TensorMatrix& matrix, int64_t offset,
                    absl::Span<uint8_t> buffer) const;
  // The values [n, k] of a matrix that is not kQ4_0, exact. Errors: as Read.
  absl::StatusOr<std::vector<float>> ReadFloats(
      const TensorMatrix& matrix) const;

 private:
  TensorFile(std::string path, FileDescriptor descriptor, int64_t size_bytes);

  absl::StatusOr<std::vector<TensorEntry>> Parse() const;
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> buffer) const;
  // The error, with the path.
  absl::Status Error(const absl::Status& status) const;

  const std::string path_;
  const FileDescriptor descriptor_;
  const int64_t size_bytes_;  // when it was opened
  std::vector<TensorEntry> tensors_;
};

}  // namespace qgemm

#endif  // QGEMM_CLI_TENSOR_FILES_TENSOR_FILE_H_
