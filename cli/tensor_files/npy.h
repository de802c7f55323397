// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes NumPy's .npy, versions 1 to 3: matrices of '<f4' and
// '<f2' in C order.

#ifndef QGEMM_CLI_TENSOR_FILES_NPY_H_
#define QGEMM_CLI_TENSOR_FILES_NPY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cli/tensor_files/byte_reader.h"
#include "cli/tensor_files/tensor.h"

namespace qgemm {

// The matrix of the file that `reader` is at the start of; its name is empty.
// Errors: INVALID_ARGUMENT that says what is wrong; the reader's.
absl::StatusOr<TensorEntry> ParseNpy(ByteReader* reader);

// The bytes of a file before the data: version 1, elements of NumPy's type
// `descr`, as "<f4" or "<i4", shape [rows, columns].
std::string NpyHeader(absl::string_view descr, int64_t rows, int64_t columns);

// Writes `bytes`, the elements that the header says, as a file. Errors: those
// of the file system, with the path.
absl::Status WriteNpy(const std::string& path, const std::string& header,
                      absl::Span<const uint8_t> bytes);

}  // namespace qgemm

#endif  // QGEMM_CLI_TENSOR_FILES_NPY_H_
