// SPDX-License-Identifier: Apache-2.0
//
// Description of an upload's bytes: the wire format with all its variants, the
// byte count of each section, and the text that a weight's identity is hashed
// from. Pure values; decoding is in weights_decoder.h.

#ifndef QGEMM_KERNELS_FORMATS_WEIGHTS_SPEC_H_
#define QGEMM_KERNELS_FORMATS_WEIGHTS_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

enum class WireFormat : uint8_t { kKbit, kQ4_0, kTernary, kInt4, kDense };

// Layout of kbit codes and absmax (docs/formats.md#kbit).
enum class KbitLayout : uint8_t { kFlat, kTiled };

// Coding of ternary weights (docs/formats.md#ternary).
enum class TernaryCoding : uint8_t { kInt8, kPacked012, kPacked123 };

// Layout of int4 codes, zeros and scales (docs/formats.md#int4).
enum class Int4Layout : uint8_t { kPlain, kGptqV1, kGptqV2, kAwq };

// Form into which the server brings a dense upload.
enum class QuantizeTarget : uint8_t {
  kNone,  // kept dense
  kKbit,
  kQ4_0,
  kInt4,
  kTernary,
};

// The parts of an upload, in the order in which they travel.
enum class Section : uint8_t {
  kCodebook,    // fp32 [2^bits]
  kGroupIndex,  // int32 [k], GPTQ's g_idx
  kBias,        // fp32 [n]
  kScales,      // absmax or scales
  kZeros,
  kCodes,  // codes, Q4_0 blocks or dense elements
};

// Fields that a format does not use stay at their defaults; Validate refuses
// others, so that equal weights have one identity.
struct WeightsSpec {
  WireFormat format = WireFormat::kKbit;
  int64_t n = 0;
  int64_t k = 0;
  bool has_bias = false;

  // kbit; and dense quantized to kbit.
  int bits = 0;
  KbitLayout kbit_layout = KbitLayout::kFlat;
  // The default codebook of that width if false.
  bool has_codebook = false;

  // kbit: of absmax (e4m4, fp16, fp32). int4: of scales (fp16, bf16, fp32).
  ScaleType scale_type = ScaleType::kFloat16;

  // ternary.
  TernaryCoding ternary_coding = TernaryCoding::kInt8;
  // One fp32 scale for the tensor rather than one a row.
  bool tensor_wide_scale = false;

  // int4; and dense quantized to int4: 32, 64, 128, or 0 for all of k.
  Int4Layout int4_layout = Int4Layout::kPlain;
  int64_t group_size = 0;
  bool has_zeros = false;  // also: quantize asymmetrically
  bool has_group_index = false;

  // dense: element type of the upload; what to make of it; and, if it stays
  // dense, the resident type (kFloat16 or kBFloat16).
  FloatType dense_type = FloatType::kFloat16;
  QuantizeTarget quantize_to = QuantizeTarget::kNone;
  FloatType resident_type = FloatType::kFloat16;
};

// The largest n and k that an upload may name.
struct WeightsLimits {
  int64_t max_n = int64_t{1} << 20;
  int64_t max_k = int64_t{1} << 20;
};

struct SectionSize {
  Section section;
  int64_t bytes;
};

// OK, or INVALID_ARGUMENT that names the field, its value and the legal ones.
absl::Status Validate(const WeightsSpec& spec, const WeightsLimits& limits);

// The sections of a valid spec in order, empty ones left out; no byte count
// overflows within the limits.
std::vector<SectionSize> SectionsOf(const WeightsSpec& spec);

// The sum of SectionsOf.
int64_t TotalBytes(const WeightsSpec& spec);

// The header that the canonical form of a valid spec begins with: default
// codebook, and bias and permutation sized but not filled.
WeightsHeader HeaderOf(const WeightsSpec& spec);

// The shape of HeaderOf.
WeightsShape ShapeOf(const WeightsSpec& spec);

// The text whose hash, continued over the section bytes in order, is the
// weight's id (docs/formats.md#identity).
std::string CanonicalText(const WeightsSpec& spec);

// The spec of a canonical text. INVALID_ARGUMENT for any other text, and for
// one of a spec that Validate refuses.
absl::StatusOr<WeightsSpec> ParseCanonicalText(absl::string_view text,
                                               const WeightsLimits& limits);

// "kbit4", "q4_0", "ternary", "int4", "dense": the family as tools print it,
// named after what is resident.
std::string ResidentFormatName(const WeightsSpec& spec);

absl::string_view Name(WireFormat format);
absl::string_view Name(KbitLayout layout);
absl::string_view Name(TernaryCoding coding);
absl::string_view Name(Int4Layout layout);
absl::string_view Name(QuantizeTarget target);
absl::string_view Name(Section section);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_WEIGHTS_SPEC_H_
