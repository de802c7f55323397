// SPDX-License-Identifier: Apache-2.0
//
// Builds the bytes of tensor files, well-formed and damaged, piece by piece.

#ifndef QGEMM_TESTS_CLI_TENSOR_BYTES_H_
#define QGEMM_TESTS_CLI_TENSOR_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "cli/tensor_files/byte_reader.h"

namespace qgemm {

// Runs one of the parsers on a file's bytes.
template <typename Parsed>
Parsed ParseBytes(Parsed (*parse)(ByteReader* reader),
                  const std::string& file) {
  ByteReader reader(absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(file.data()), file.size()));
  return parse(&reader);
}

// The little-endian bytes of a value.
template <typename T>
std::string Raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Length, JSON, `data_bytes` zeros.
inline std::string Safetensors(const std::string& json, size_t data_bytes) {
  return Raw<uint64_t>(json.size()) + json + std::string(data_bytes, '\0');
}

// Pieces of a GGUF file.
inline std::string GgufString(const std::string& text) {
  return Raw<uint64_t>(text.size()) + text;
}
inline std::string GgufPreamble(uint64_t tensors, uint64_t metadata,
                                uint32_t version = 3) {
  return "GGUF" + Raw(version) + Raw(tensors) + Raw(metadata);
}
// `dimensions` as the file has them: ne[0], the innermost, first.
inline std::string GgufTensor(const std::string& name,
                              const std::vector<uint64_t>& dimensions,
                              uint32_t type, uint64_t offset) {
  std::string bytes =
      GgufString(name) + Raw(static_cast<uint32_t>(dimensions.size()));
  for (const uint64_t extent : dimensions) bytes += Raw(extent);
  return bytes + Raw(type) + Raw(offset);
}
// `header` padded to the default alignment, then `data_bytes` zeros.
inline std::string GgufFile(std::string header, size_t data_bytes) {
  while (header.size() % 32 != 0) header.push_back('\0');
  return header + std::string(data_bytes, '\0');
}

// Magic, version, length, header, `data_bytes` zeros.
inline std::string Npy(uint8_t major, const std::string& header,
                       size_t data_bytes) {
  std::string bytes = std::string("\x93NUMPY") + static_cast<char>(major);
  bytes.push_back('\0');
  bytes += major == 1 ? Raw(static_cast<uint16_t>(header.size()))
                      : Raw(static_cast<uint32_t>(header.size()));
  return bytes + header + std::string(data_bytes, '\0');
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLI_TENSOR_BYTES_H_
