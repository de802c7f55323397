// SPDX-License-Identifier: Apache-2.0
//
// The list of wire formats, and a spec as a header message.

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/wire_header.h"

namespace qgemm {
namespace {

v1::ScaleType ToWire(ScaleType type) {
  switch (type) {
    case ScaleType::kE4m4:
      return v1::SCALE_TYPE_E4M4;
    case ScaleType::kFloat16:
      return v1::SCALE_TYPE_FP16;
    case ScaleType::kBFloat16:
      return v1::SCALE_TYPE_BF16;
    case ScaleType::kFloat32:
      return v1::SCALE_TYPE_FP32;
  }
  return v1::SCALE_TYPE_UNSPECIFIED;
}

void SetKbit(const WeightsSpec& spec, v1::KbitFormat* kbit) {
  kbit->set_bits(spec.bits);
  kbit->set_layout(spec.kbit_layout == KbitLayout::kTiled
                       ? v1::KbitFormat::LAYOUT_TILED
                       : v1::KbitFormat::LAYOUT_FLAT);
  kbit->set_absmax_type(ToWire(spec.scale_type));
  kbit->set_has_codebook(spec.has_codebook);
}

void SetInt4(const WeightsSpec& spec, v1::Int4Format* int4) {
  // The enums differ by the wire's zero, which means "not set".
  int4->set_layout(static_cast<v1::Int4Format::Layout>(
      static_cast<int>(spec.int4_layout) + 1));
  int4->set_group_size(spec.group_size);
  int4->set_scale_type(ToWire(spec.scale_type));
  int4->set_has_zeros(spec.has_zeros);
  int4->set_has_group_index(spec.has_group_index);
}

void SetDense(const WeightsSpec& spec, v1::DenseFormat* dense) {
  dense->set_type(ToWire(spec.dense_type));
  switch (spec.quantize_to) {
    case QuantizeTarget::kNone:
      dense->set_resident_type(ToWire(spec.resident_type));
      break;
    case QuantizeTarget::kKbit:
      dense->mutable_quantize_kbit()->set_bits(spec.bits);
      break;
    case QuantizeTarget::kQ4_0:
      dense->mutable_quantize_q4_0();
      break;
    case QuantizeTarget::kTernary:
      dense->mutable_quantize_ternary();
      break;
    case QuantizeTarget::kInt4:
      SetInt4(spec, dense->mutable_quantize_int4());
      break;
  }
}

// Collects specs of one shape.
class SpecList {
 public:
  SpecList(int64_t n, int64_t k) : n_(n), k_(k) {}

  WeightsSpec& Add(const std::string& name, WireFormat format) {
    specs_.push_back({name, WeightsSpec()});
    WeightsSpec& spec = specs_.back().spec;
    spec.format = format;
    spec.n = n_;
    spec.k = k_;
    return spec;
  }

  std::vector<NamedSpec> Take() { return std::move(specs_); }

 private:
  const int64_t n_;
  const int64_t k_;
  std::vector<NamedSpec> specs_;
};

void AddKbit(SpecList* list) {
  for (int bits = 2; bits <= 5; ++bits) {
    for (const ScaleType type :
         {ScaleType::kE4m4, ScaleType::kFloat16, ScaleType::kFloat32}) {
      WeightsSpec& spec = list->Add(absl::StrCat("kbit", bits, "_", Name(type)),
                                    WireFormat::kKbit);
      spec.bits = bits;
      spec.scale_type = type;
      spec.has_codebook = type == ScaleType::kFloat32;
    }
  }
  WeightsSpec& tiled = list->Add("kbit4_tiled", WireFormat::kKbit);
  tiled.bits = 4;
  tiled.scale_type = ScaleType::kE4m4;
  tiled.kbit_layout = KbitLayout::kTiled;
}

void AddTernary(SpecList* list) {
  for (const TernaryCoding coding :
       {TernaryCoding::kInt8, TernaryCoding::kPacked012,
        TernaryCoding::kPacked123}) {
    WeightsSpec& spec =
        list->Add(absl::StrCat("ternary_", Name(coding)), WireFormat::kTernary);
    spec.ternary_coding = coding;
    spec.has_bias = coding == TernaryCoding::kInt8;
    spec.tensor_wide_scale = coding == TernaryCoding::kPacked123;
  }
}

void AddInt4(SpecList* list) {
  for (const Int4Layout layout : {Int4Layout::kPlain, Int4Layout::kGptqV1,
                                  Int4Layout::kGptqV2, Int4Layout::kAwq}) {
    WeightsSpec& spec =
        list->Add(absl::StrCat("int4_", Name(layout)), WireFormat::kInt4);
    spec.int4_layout = layout;
    spec.group_size = layout == Int4Layout::kAwq ? 128 : 64;
    spec.has_zeros = layout == Int4Layout::kPlain;
    spec.has_group_index = layout == Int4Layout::kGptqV2;
  }
  WeightsSpec& whole = list->Add("int4_one_group", WireFormat::kInt4);
  whole.scale_type = ScaleType::kFloat32;
}

void AddDense(SpecList* list) {
  for (const FloatType type :
       {FloatType::kFloat32, FloatType::kFloat16, FloatType::kBFloat16}) {
    WeightsSpec& spec =
        list->Add(absl::StrCat("dense_", Name(type)), WireFormat::kDense);
    spec.dense_type = type;
    spec.resident_type =
        type == FloatType::kFloat32 ? FloatType::kBFloat16 : type;
  }
  for (const QuantizeTarget target :
       {QuantizeTarget::kKbit, QuantizeTarget::kQ4_0, QuantizeTarget::kInt4,
        QuantizeTarget::kTernary}) {
    WeightsSpec& spec =
        list->Add(absl::StrCat("dense_to_", Name(target)), WireFormat::kDense);
    spec.dense_type = FloatType::kFloat32;
    spec.quantize_to = target;
    if (target == QuantizeTarget::kKbit) spec.bits = 3;
    if (target == QuantizeTarget::kInt4) spec.group_size = 32;
  }
}

}  // namespace

v1::FloatType ToWire(FloatType type) {
  switch (type) {
    case FloatType::kFloat32:
      return v1::FLOAT_TYPE_FP32;
    case FloatType::kFloat16:
      return v1::FLOAT_TYPE_FP16;
    case FloatType::kBFloat16:
      return v1::FLOAT_TYPE_BF16;
  }
  return v1::FLOAT_TYPE_UNSPECIFIED;
}

void SetFormat(const WeightsSpec& spec, v1::WeightsHeader* header) {
  switch (spec.format) {
    case WireFormat::kKbit:
      return SetKbit(spec, header->mutable_kbit());
    case WireFormat::kQ4_0:
      header->mutable_q4_0();
      return;
    case WireFormat::kTernary:
      header->mutable_ternary()->set_coding(
          static_cast<v1::TernaryFormat::Coding>(
              static_cast<int>(spec.ternary_coding) + 1));
      header->mutable_ternary()->set_tensor_wide_scale(spec.tensor_wide_scale);
      return;
    case WireFormat::kInt4:
      return SetInt4(spec, header->mutable_int4());
    case WireFormat::kDense:
      return SetDense(spec, header->mutable_dense());
  }
}

std::vector<NamedSpec> AllWireFormats(int64_t n, int64_t k) {
  SpecList list(n, k);
  AddKbit(&list);
  list.Add("q4_0", WireFormat::kQ4_0);
  AddTernary(&list);
  AddInt4(&list);
  AddDense(&list);
  return list.Take();
}

}  // namespace qgemm
