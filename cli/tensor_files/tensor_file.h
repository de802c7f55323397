// SPDX-License-Identifier: Apache-2.0
//
// Opens a file of tensors, whichever of the formats it has, and maps it into
// memory. The formats are in tensor.h and npy.h.

#ifndef QGEMM_CLI_TENSOR_FILES_TENSOR_FILE_H_
#define QGEMM_CLI_TENSOR_FILES_TENSOR_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cli/tensor_files/tensor.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// A weight matrix inside a mapped file.
struct TensorMatrix {
  int64_t n = 0;  // rows: output features
  int64_t k = 0;  // columns: input features
  TensorType type = TensorType::kFloat32;
  absl::Span<const uint8_t> bytes;  // borrowed from the file, any alignment
};

// The element type of a matrix that is not kQ4_0.
FloatType FloatTypeOf(TensorType type);

// The values [n, k] of a matrix that is not kQ4_0, exact.
std::vector<float> ToFloats(const TensorMatrix& matrix);

// An open file. Immutable and thread-safe. If another process shortens the file
// while it is open, reading it ends the program by SIGBUS.
class TensorFile {
 public:
  // The format is recognized by content; safetensors, which has no magic
  // number, by the name's ending. Errors: NOT_FOUND, PERMISSION_DENIED,
  // INVALID_ARGUMENT (with the path and what is wrong).
  static absl::StatusOr<std::unique_ptr<TensorFile>> Open(
      const std::string& path);

  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;
  ~TensorFile();

  const std::vector<TensorEntry>& tensors() const { return tensors_; }

  // The matrix called `name`; an empty name stands for a file's only tensor.
  // Errors: NOT_FOUND (lists what there is), INVALID_ARGUMENT (not a matrix),
  // UNIMPLEMENTED (element type).
  absl::StatusOr<TensorMatrix> Matrix(absl::string_view name) const;

 private:
  TensorFile(std::string path, absl::Span<const uint8_t> bytes);

  const std::string path_;
  const absl::Span<const uint8_t> bytes_;  // mapped
  std::vector<TensorEntry> tensors_;
};

}  // namespace qgemm

#endif  // QGEMM_CLI_TENSOR_FILES_TENSOR_FILE_H_
