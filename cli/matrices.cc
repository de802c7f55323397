// SPDX-License-Identifier: Apache-2.0
//
// Conversions on the way.

#include "cli/matrices.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/layer_source.h"
#include "cli/tensor_files/npy.h"
#include "cli/tensor_files/tensor_file.h"

namespace qgemm::cli {
namespace {

RowMatrix Pack(int64_t m, const std::vector<float>& values, FloatType type) {
  RowMatrix matrix;
  matrix.m = m;
  matrix.bytes.resize(values.size() * SizeOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    StoreFloat(type, values[i], matrix.bytes.data() + i * SizeOf(type));
  }
  return matrix;
}

// Elements of 4 bytes.
absl::Status WriteWords(const std::string& path, absl::string_view type,
                        int64_t m, absl::Span<const uint8_t> bytes) {
  const auto elements = static_cast<int64_t>(bytes.size() / 4);
  return WriteNpy(path, NpyHeader(type, m, elements / m), bytes);
}

}  // namespace

absl::StatusOr<RowMatrix> ReadMatrix(const std::string& path, int64_t width,
                                     FloatType type) {
  ASSIGN_OR_RETURN(const auto file, TensorFile::Open(path));
  ASSIGN_OR_RETURN(const TensorMatrix matrix, file->Matrix(""));
  if (matrix.type == TensorType::kQ4_0 || matrix.k != width) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the matrix is ", Name(matrix.type), " [", matrix.n, ", ",
        matrix.k, "]; floats [m, ", width, "] are needed"));
  }
  ASSIGN_OR_RETURN(const std::vector<float> values, file->ReadFloats(matrix));
  return Pack(matrix.n, values, type);
}

absl::StatusOr<RowMatrix> MakeMatrix(int64_t m, int64_t width, FloatType type,
                                     int64_t seed) {
  constexpr int64_t kMaxElements = int64_t{1} << 32;
  if (width < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a matrix of ", width, " columns cannot be made"));
  }
  if (m > kMaxElements / width) {
    return absl::InvalidArgumentError(
        absl::StrCat("--m is ", m, "; of ", width, " columns at most ",
                     kMaxElements / width, " rows are made; give a file"));
  }
  // Another sequence than that of random weights of the same seed.
  return Pack(m, RandomValues(m * width, 1.0f, ~static_cast<uint64_t>(seed)),
              type);
}

absl::Status WriteMatrix(const std::string& path, FloatType type, int64_t m,
                         absl::Span<const uint8_t> bytes) {
  if (type == FloatType::kFloat32) return WriteWords(path, "<f4", m, bytes);
  const auto elements = static_cast<int64_t>(bytes.size()) / SizeOf(type);
  if (type == FloatType::kFloat16) {
    return WriteNpy(path, NpyHeader("<f2", m, elements / m), bytes);
  }
  std::vector<float> values(elements);
  for (int64_t i = 0; i < elements; ++i) {
    values[i] = LoadFloat(type, bytes.data() + i * SizeOf(type));
  }
  return WriteWords(
      path, "<f4", m,
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                          values.size() * sizeof(float)));
}

absl::Status WriteIds(const std::string& path, int64_t m,
                      absl::Span<const uint8_t> bytes) {
  return WriteWords(path, "<i4", m, bytes);
}

}  // namespace qgemm::cli
