// SPDX-License-Identifier: Apache-2.0
//
// The fields of a spec: names, the formats that use them, the canonical text
// and the legal values. Shapes and byte counts are in weights_shape.cc.
//
// The canonical text, one `name=value` a line, every line ended by \n:
//
//   qgemm-weights-v1
//   format=kbit | q4_0 | ternary | int4 | dense
//   n=<decimal>
//   k=<decimal>
//   bias=0 | 1
//
// then those of the following that the format uses, in this order:
//
//   type=fp32 | fp16 | bf16                     dense
//   quantize_to=none | kbit | q4_0 | int4 | ternary   dense
//   resident_type=fp16 | bf16                   dense, quantize_to=none
//   bits=2 | 3 | 4 | 5                          kbit, dense to kbit
//   layout=flat | tiled                         kbit
//   layout=plain | gptq_v1 | gptq_v2 | awq      int4
//   scale_type=e4m4 | fp16 | fp32               kbit
//   scale_type=fp16 | bf16 | fp32               int4, dense to int4
//   codebook=0 | 1                              kbit, dense to kbit
//   coding=int8 | packed_012 | packed_123       ternary
//   tensor_wide_scale=0 | 1                     ternary
//   group_size=0 | 32 | 64 | 128                int4, dense to int4
//   zeros=0 | 1                                 int4 plain, dense to int4
//   group_index=0 | 1                           int4 gptq_v1 and gptq_v2

#include "kernels/formats/weights_spec.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// One optional field of a spec as text.
struct Field {
  absl::string_view name;
  std::string value;
  bool used;
};

bool IsGptq(const WeightsSpec& spec) {
  return spec.int4_layout == Int4Layout::kGptqV1 ||
         spec.int4_layout == Int4Layout::kGptqV2;
}

std::string Text(absl::string_view value) { return std::string(value); }
std::string Text(bool value) { return value ? "1" : "0"; }

// Every optional field, in the order of the canonical text.
std::vector<Field> FieldsOf(const WeightsSpec& spec) {
  const bool dense = spec.format == WireFormat::kDense;
  const auto makes = [&](WireFormat format, QuantizeTarget target) {
    return spec.format == format || (dense && spec.quantize_to == target);
  };
  const bool kbit = makes(WireFormat::kKbit, QuantizeTarget::kKbit);
  const bool int4 = makes(WireFormat::kInt4, QuantizeTarget::kInt4);
  const bool from_kbit = spec.format == WireFormat::kKbit;
  const bool from_int4 = spec.format == WireFormat::kInt4;
  const bool ternary = spec.format == WireFormat::kTernary;
  const bool kept = dense && spec.quantize_to == QuantizeTarget::kNone;
  const bool plain = spec.int4_layout == Int4Layout::kPlain;
  return {
      {"type", Text(Name(spec.dense_type)), dense},
      {"quantize_to", Text(Name(spec.quantize_to)), dense},
      {"resident_type", Text(Name(spec.resident_type)), kept},
      {"bits", absl::StrCat(spec.bits), kbit},
      {"layout", Text(Name(spec.kbit_layout)), from_kbit},
      {"layout", Text(Name(spec.int4_layout)), from_int4},
      {"scale_type", Text(Name(spec.scale_type)), from_kbit || int4},
      {"codebook", Text(spec.has_codebook), kbit},
      {"coding", Text(Name(spec.ternary_coding)), ternary},
      {"tensor_wide_scale", Text(spec.tensor_wide_scale), ternary},
      {"group_size", absl::StrCat(spec.group_size), int4},
      {"zeros", Text(spec.has_zeros), int4 && plain},
      {"group_index", Text(spec.has_group_index), from_int4 && IsGptq(spec)},
  };
}

template <typename Value>
absl::Status Illegal(absl::string_view field, const Value& value,
                     absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " = ", value, ": ", legal));
}

absl::Status CheckFields(const WeightsSpec& spec) {
  if (Name(spec.format) == "?") {
    return Illegal("format", static_cast<int>(spec.format), "unknown");
  }
  const std::vector<Field> fields = FieldsOf(spec);
  const std::vector<Field> defaults = FieldsOf(WeightsSpec());
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].value == "?") {
      return Illegal(fields[i].name, "?", "an unknown value");
    }
    if (!fields[i].used && fields[i].value != defaults[i].value) {
      return Illegal(fields[i].name, fields[i].value,
                     absl::StrCat("format ", Name(spec.format),
                                  " does not use it here; leave it at ",
                                  defaults[i].value));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return Illegal(field, value, absl::StrCat("must be 1 to ", limit));
}

absl::Status CheckShape(const WeightsSpec& spec, const WeightsLimits& limits) {
  // Column numbers travel as int32; 2^56 elements of up to 4 bytes, with
  // their scales and padding, stay far inside int64.
  constexpr int64_t kMaxElements = int64_t{1} << 56;
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  RETURN_IF_ERROR(CheckRange("n", spec.n, std::min(limits.max_n, kMaxInt32)));
  RETURN_IF_ERROR(CheckRange("k", spec.k, std::min(limits.max_k, kMaxInt32)));
  const std::optional<int64_t> elements = CheckedMul(spec.n, spec.k);
  if (elements.has_value() && *elements <= kMaxElements) {
    return absl::OkStatus();
  }
  return Illegal("n * k", absl::StrCat(spec.n, " * ", spec.k),
                 absl::StrCat("must be at most ", kMaxElements));
}

absl::Status CheckMultiple(absl::string_view field, int64_t value,
                           int64_t divisor, absl::string_view what) {
  if (value % divisor == 0) return absl::OkStatus();
  return Illegal(field, value,
                 absl::StrCat(what, " needs a multiple of ", divisor));
}

absl::Status CheckKbit(const WeightsSpec& spec) {
  if (spec.bits < 2 || spec.bits > 5) {
    return Illegal("bits", spec.bits, "must be 2, 3, 4 or 5");
  }
  RETURN_IF_ERROR(CheckMultiple("k", spec.k, 32, "kbit"));
  if (spec.kbit_layout == KbitLayout::kTiled) {
    RETURN_IF_ERROR(CheckMultiple("n", spec.n, 128, "kbit's tiled layout"));
  }
  if (spec.format == WireFormat::kKbit &&
      spec.scale_type == ScaleType::kBFloat16) {
    return Illegal("scale_type", Name(spec.scale_type),
                   "kbit takes e4m4, fp16 or fp32");
  }
  return absl::OkStatus();
}

absl::Status CheckInt4(const WeightsSpec& spec) {
  const int64_t group = spec.group_size;
  if (group != 0 && group != 32 && group != 64 && group != 128) {
    return Illegal("group_size", group,
                   "must be 32, 64, 128, or 0 for all of k");
  }
  if (spec.scale_type == ScaleType::kE4m4) {
    return Illegal("scale_type", Name(spec.scale_type),
                   "int4 takes fp16, bf16 or fp32");
  }
  if (spec.int4_layout == Int4Layout::kPlain) return absl::OkStatus();
  const absl::string_view layout = Name(spec.int4_layout);
  RETURN_IF_ERROR(CheckMultiple("n", spec.n, 8, layout));
  RETURN_IF_ERROR(CheckMultiple("k", spec.k, 8, layout));
  if (group == 0) return absl::OkStatus();
  return CheckMultiple("k", spec.k, group,
                       absl::StrCat(layout, " with group_size = ", group));
}

absl::Status CheckDense(const WeightsSpec& spec) {
  switch (spec.quantize_to) {
    case QuantizeTarget::kNone:
      if (spec.resident_type != FloatType::kFloat32) return absl::OkStatus();
      return Illegal("resident_type", Name(spec.resident_type),
                     "must be fp16 or bf16");
    case QuantizeTarget::kKbit:
      return CheckKbit(spec);
    case QuantizeTarget::kQ4_0:
      return CheckMultiple("k", spec.k, 32, "q4_0");
    case QuantizeTarget::kInt4:
      return CheckInt4(spec);
    case QuantizeTarget::kTernary:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const WeightsSpec& spec, const WeightsLimits& limits) {
  RETURN_IF_ERROR(CheckFields(spec));
  RETURN_IF_ERROR(CheckShape(spec, limits));
  switch (spec.format) {
    case WireFormat::kKbit:
      return CheckKbit(spec);
    case WireFormat::kQ4_0:
      return CheckMultiple("k", spec.k, 32, "q4_0");
    case WireFormat::kTernary:
      return absl::OkStatus();
    case WireFormat::kInt4:
      return CheckInt4(spec);
    case WireFormat::kDense:
      return CheckDense(spec);
  }
  return absl::OkStatus();
}

std::string CanonicalText(const WeightsSpec& spec) {
  std::string text = absl::StrCat(
      "qgemm-weights-v1\nformat=", Name(spec.format), "\nn=", spec.n,
      "\nk=", spec.k, "\nbias=", Text(spec.has_bias), "\n");
  for (const Field& field : FieldsOf(spec)) {
    if (field.used) absl::StrAppend(&text, field.name, "=", field.value, "\n");
  }
  return text;
}

absl::string_view Name(WireFormat format) {
  switch (format) {
    case WireFormat::kKbit:
      return "kbit";
    case WireFormat::kQ4_0:
      return "q4_0";
    case WireFormat::kTernary:
      return "ternary";
    case WireFormat::kInt4:
      return "int4";
    case WireFormat::kDense:
      return "dense";
  }
  return "?";
}

absl::string_view Name(KbitLayout layout) {
  switch (layout) {
    case KbitLayout::kFlat:
      return "flat";
    case KbitLayout::kTiled:
      return "tiled";
  }
  return "?";
}

absl::string_view Name(TernaryCoding coding) {
  switch (coding) {
    case TernaryCoding::kInt8:
      return "int8";
    case TernaryCoding::kPacked012:
      return "packed_012";
    case TernaryCoding::kPacked123:
      return "packed_123";
  }
  return "?";
}

absl::string_view Name(Int4Layout layout) {
  switch (layout) {
    case Int4Layout::kPlain:
      return "plain";
    case Int4Layout::kGptqV1:
      return "gptq_v1";
    case Int4Layout::kGptqV2:
      return "gptq_v2";
    case Int4Layout::kAwq:
      return "awq";
  }
  return "?";
}

absl::string_view Name(QuantizeTarget target) {
  switch (target) {
    case QuantizeTarget::kNone:
      return "none";
    case QuantizeTarget::kKbit:
      return "kbit";
    case QuantizeTarget::kQ4_0:
      return "q4_0";
    case QuantizeTarget::kInt4:
      return "int4";
    case QuantizeTarget::kTernary:
      return "ternary";
  }
  return "?";
}

absl::string_view Name(Section section) {
  switch (section) {
    case Section::kCodebook:
      return "codebook";
    case Section::kGroupIndex:
      return "group_index";
    case Section::kBias:
      return "bias";
    case Section::kScales:
      return "scales";
    case Section::kZeros:
      return "zeros";
    case Section::kCodes:
      return "codes";
  }
  return "?";
}

}  // namespace qgemm
