// SPDX-License-Identifier: Apache-2.0
//
// The cases of golden.txt and golden.bin, whose grammar make_golden.py says.

#ifndef QGEMM_TESTS_GOLDEN_GOLDEN_FILE_H_
#define QGEMM_TESTS_GOLDEN_GOLDEN_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/formats/weights_encoder.h"
#include "kernels/formats/weights_spec.h"

namespace qgemm {

struct GoldenCase {
  std::string name;
  // With line ends, as the id hashes it.
  std::string canonical_text;
  std::string id;
  EncodedWeights upload;
  int64_t flushed_blocks = 0;
  float tensor_scale = 1.0f;
  // One of the two is there: fp64 [n, k] in the caller's column order, or 8
  // bytes of SHA-256 a row of it. Never a negative zero.
  std::vector<double> weights;
  std::vector<uint8_t> row_digests;
  std::vector<int32_t> permutation;  // empty without one
  // The upload is what EncodeWeights makes of `input` by these options.
  std::optional<EncodeOptions> encode;
  std::vector<float> input;  // [n, k]

  // The bytes of a section; empty if there is none.
  std::vector<uint8_t> SectionBytes(Section section) const;
};

// All of a file, or NOT_FOUND.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// The cases of an index and its binary file.
absl::StatusOr<std::vector<GoldenCase>> ReadGoldenCases(
    const std::string& index_path, const std::string& binary_path);

}  // namespace qgemm

#endif  // QGEMM_TESTS_GOLDEN_GOLDEN_FILE_H_
