// SPDX-License-Identifier: Apache-2.0
//
// Reads the tensor directory of a .gguf file, versions 2 and 3; metadata is
// checked and skipped, but for general.alignment.

#ifndef QGEMM_CLI_TENSOR_FILES_GGUF_H_
#define QGEMM_CLI_TENSOR_FILES_GGUF_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cli/tensor_files/tensor.h"

namespace qgemm {

// The tensors of the whole file `file`, in its order, shapes turned to
// outermost first (GGUF's ne[0], which a layer calls k, is innermost). F32,
// F16, BF16 and Q4_0 are read; other types are listed. Errors:
// INVALID_ARGUMENT, with what is wrong where.
absl::StatusOr<std::vector<TensorEntry>> ParseGguf(
    absl::Span<const uint8_t> file);

}  // namespace qgemm

#endif  // QGEMM_CLI_TENSOR_FILES_GGUF_H_
