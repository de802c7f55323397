// SPDX-License-Identifier: Apache-2.0
//
// Reads the header of a .safetensors file: 8 bytes of length, JSON, data.

#ifndef QGEMM_CLI_TENSOR_FILES_SAFETENSORS_H_
#define QGEMM_CLI_TENSOR_FILES_SAFETENSORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cli/tensor_files/tensor.h"

namespace qgemm {

// The tensors of the whole file `file`, by offset. F32, F16 and BF16 are read;
// other types are listed. Errors: INVALID_ARGUMENT, with what is wrong where.
absl::StatusOr<std::vector<TensorEntry>> ParseSafetensors(
    absl::Span<const uint8_t> file);

}  // namespace qgemm

#endif  // QGEMM_CLI_TENSOR_FILES_SAFETENSORS_H_
