// SPDX-License-Identifier: Apache-2.0
//
// The canonical form of a layer's weights, and the sink that receives it
// piece by piece. Codecs (kernels/formats) write it, backends repack it; no
// backend sees a wire format.
//
// A quantized layer, whatever its wire format, is
//   w[n,k] = (codebook[code[n,k]] - zero[n,g]) * scale[n,g] * tensor_scale
// with g = k / group_size. A dense layer is w[n,k] in fp16 or bf16.
// With a permutation, canonical column j stands for the caller's input
// feature permutation[j]: the dot product reads a[permutation[j]].

#ifndef QGEMM_KERNELS_MATRIX_WEIGHTS_H_
#define QGEMM_KERNELS_MATRIX_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/checked_math.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// All of a layer but its codes, scales and elements.
struct WeightsHeader {
  enum class Kind : uint8_t { kQuantized, kDense };

  Kind kind = Kind::kQuantized;
  int64_t n = 0;  // output features (rows)
  int64_t k = 0;  // input features (columns, the reduction)
  // Added to every row of the result after scaling; empty, or n values.
  std::vector<float> bias;

  // Quantized only.
  int bits = 0;                 // of a code: 2..5 (room for 8)
  std::vector<float> codebook;  // 2^bits finite values
  int64_t group_size = 0;       // 32, 64, 128 or k; the last may be short
  ScaleType scale_type = ScaleType::kFloat16;
  bool has_zeros = false;
  // Column order (see above): empty, or a permutation of 0..k-1.
  std::vector<int32_t> permutation;
  // True if every codebook value and zero is an integer, so that mode A32 can
  // be exact in the weights up to their scale.
  bool integer_codes = false;
  // True if Q8_1 activations are defined for the format (Q4_0).
  bool supports_a8 = false;

  // Dense only: kFloat16 or kBFloat16.
  FloatType dense_type = FloatType::kFloat16;

  int64_t groups_per_row() const { return CeilDiv(k, group_size); }
};

// The scalars of a header: all that the size of a resident layer and the choice
// of its kernels depend on.
struct WeightsShape {
  WeightsShape() = default;
  // A header stands for its shape.
  WeightsShape(const WeightsHeader& header);  // NOLINT(google-explicit-*)

  bool dense = false;
  int64_t n = 0;
  int64_t k = 0;
  bool has_bias = false;

  // Quantized only.
  int bits = 0;
  int64_t group_size = 0;
  ScaleType scale_type = ScaleType::kFloat16;
  bool has_zeros = false;
  bool has_permutation = false;
  bool integer_codes = false;
  bool supports_a8 = false;
  bool ternary_codes = false;  // the codebook is -1, 0, 1, 0

  // Dense only.
  FloatType dense_type = FloatType::kFloat16;

  int64_t groups_per_row() const { return CeilDiv(k, group_size); }
};

// A rectangle of codes: rows [row_begin, row_begin + rows), columns
// [k_begin, k_begin + columns), one code a byte, row-major without gaps.
struct CodePanel {
  int64_t row_begin;
  int64_t rows;
  int64_t k_begin;
  int64_t columns;
  absl::Span<const uint8_t> codes;
};

// Scales, or zeros, of rows [row_begin, row_begin + rows) and groups
// [group_begin, group_begin + groups), row-major without gaps. Scales are
// elements of the header's scale type in little-endian bytes, zeros one uint8
// each (0..16).
struct GroupPanel {
  int64_t row_begin;
  int64_t rows;
  int64_t group_begin;
  int64_t groups;
  absl::Span<const uint8_t> bytes;
};

// Rows [row_begin, row_begin + rows) of a dense layer: [rows, k] elements of
// the header's dense type.
struct DensePanel {
  int64_t row_begin;
  int64_t rows;
  absl::Span<const uint8_t> bytes;
};

// Receives one layer. Begin comes first and once. Panels come in any order
// and any shape, and cover every element exactly once; spans are borrowed for
// the call. Scales may come before, between or after the codes. Calls come
// from one thread at a time. Errors: the sink's own (out of memory, shape
// beyond its limits); after one the sink takes nothing more. A panel that
// lies outside the header's shape is the writer's bug, not an error.
class WeightsSink {
 public:
  virtual ~WeightsSink() = default;

  virtual absl::Status Begin(const WeightsHeader& header) = 0;
  virtual absl::Status WriteCodes(const CodePanel& panel) = 0;
  virtual absl::Status WriteScales(const GroupPanel& panel) = 0;
  virtual absl::Status WriteZeros(const GroupPanel& panel) = 0;
  virtual absl::Status WriteDense(const DensePanel& panel) = 0;
  // A power of two; 1 if it is never called. At most once, before the end.
  virtual absl::Status SetTensorScale(float tensor_scale) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_MATRIX_WEIGHTS_H_
