// SPDX-License-Identifier: Apache-2.0
//
// The directory of a tensor file, whatever its format, and the readers of those
// formats that have several tensors.

#ifndef QGEMM_CLI_TENSOR_FILES_TENSOR_H_
#define QGEMM_CLI_TENSOR_FILES_TENSOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/tensor_files/byte_reader.h"

namespace qgemm {

// Element types that are read. kQ4_0 is ggml's block_q4_0: 18 bytes for 32
// elements along the innermost dimension.
enum class TensorType : uint8_t { kFloat32, kFloat16, kBFloat16, kQ4_0 };

// "F32", "F16", "BF16", "Q4_0".
absl::string_view Name(TensorType type);

// One tensor inside a file.
struct TensorEntry {
  std::string name;
  std::string type_name;           // as the file has it
  std::optional<TensorType> type;  // nothing: a type that is not read
  std::vector<int64_t> shape;      // outermost first, each 1 or more
  int64_t offset = 0;              // of the first byte in the file
  int64_t size_bytes = 0;          // 0 for a type that is not read
};

// Sets size_bytes from type and shape. INVALID_ARGUMENT names the tensor: a
// dimension is not positive, the product is above 2^63 - 1, or the innermost
// dimension is not a multiple of a block.
absl::Status SetSize(TensorEntry* tensor);

// INVALID_ARGUMENT if two tensors share a name or a byte, or if one lies
// outside [data_begin, file_bytes).
absl::Status CheckEntries(const std::vector<TensorEntry>& tensors,
                          int64_t data_begin, int64_t file_bytes);

// "[4096, 14336]".
std::string ShapeText(const std::vector<int64_t>& shape);

// A tensor name as an error message shows it: shortened, escaped.
std::string Quoted(absl::string_view name);

// The tensors of the file that `reader` is at the start of. Both list tensors
// of types that are not read. Errors: INVALID_ARGUMENT that says what is wrong
// where; the reader's.

// .safetensors (8 bytes of length, JSON, data): F32, F16 and BF16 are read. By
// offset.
absl::StatusOr<std::vector<TensorEntry>> ParseSafetensors(ByteReader* reader);

// .gguf, versions 2 and 3: F32, F16, BF16 and Q4_0 are read. In the file's
// order, shapes turned to outermost first (GGUF's ne[0], which a layer calls k,
// is innermost). Metadata is checked and skipped, but for general.alignment.
absl::StatusOr<std::vector<TensorEntry>> ParseGguf(ByteReader* reader);

}  // namespace qgemm

#endif  // QGEMM_CLI_TENSOR_FILES_TENSOR_H_
