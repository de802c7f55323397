// SPDX-License-Identifier: Apache-2.0
//
// The vectors of each decoder, added up. A test measures them.

#include <algorithm>

#include "kernels/formats/record_stream.h"
#include "kernels/formats/weights_decoder.h"

namespace qgemm {
namespace {

// The objects themselves, with their tables.
constexpr int64_t kObjectBytes = 8192;

// Codebook, bias and group index: as received, as numbers, and in the header.
int64_t MetadataBytes(const WeightsSpec& spec) {
  return (spec.has_bias ? 12 * spec.n : 0) +
         (spec.has_group_index ? 17 * spec.k : 0);
}

// Codes of the rows that are handed on at once.
int64_t PanelBytes(const WeightsSpec& spec) {
  return std::min(spec.n, PanelRows(spec.k)) * spec.k;
}

// absmax that are converted when the last has come, and a panel of the result.
int64_t AbsmaxBytes(const WeightsSpec& spec, int64_t bytes_each) {
  const int64_t blocks = spec.k / 32;
  return spec.n * (blocks + 1) * bytes_each +
         std::min(spec.n, PanelRows(blocks)) * blocks;
}

int64_t KbitBytes(const WeightsSpec& spec) {
  const int64_t panel = PanelBytes(spec) + 2 * spec.k;
  const bool passes_through = spec.kbit_layout == KbitLayout::kFlat &&
                              spec.scale_type == ScaleType::kE4m4;
  if (passes_through) return panel;
  return panel + AbsmaxBytes(spec, SizeOf(spec.scale_type));
}

// One record of each section, and a panel of codes with one of runs.
int64_t GptqAwqBytes(const WeightsSpec& spec) {
  return 10 * spec.n + 2 * std::min(128 * spec.n, kPanelCodes);
}

int64_t DenseBytes(const WeightsSpec& spec) {
  switch (spec.quantize_to) {
    case QuantizeTarget::kNone:
      return 2 * PanelBytes(spec) + 8 * spec.k;
    case QuantizeTarget::kKbit:
      return 3 * PanelBytes(spec) + 16 * spec.k +
             AbsmaxBytes(spec, sizeof(float));
    case QuantizeTarget::kQ4_0:
    case QuantizeTarget::kInt4:
    case QuantizeTarget::kTernary:
      return 3 * PanelBytes(spec) + 16 * spec.k;
  }
  return 0;
}

int64_t FormatBytes(const WeightsSpec& spec) {
  switch (spec.format) {
    case WireFormat::kKbit:
      return KbitBytes(spec);
    case WireFormat::kQ4_0:
      return 2 * PanelBytes(spec) + spec.k;
    case WireFormat::kTernary:
      return PanelBytes(spec) + spec.k + 8 * std::min<int64_t>(spec.n, 4096);
    case WireFormat::kInt4:
      return spec.int4_layout == Int4Layout::kPlain
                 ? PanelBytes(spec) + 2 * spec.k
                 : GptqAwqBytes(spec);
    case WireFormat::kDense:
      return DenseBytes(spec);
  }
  return 0;
}

}  // namespace

int64_t DecoderBytes(const WeightsSpec& spec) {
  return kObjectBytes + MetadataBytes(spec) + FormatBytes(spec);
}

}  // namespace qgemm
