// SPDX-License-Identifier: Apache-2.0
//
// A section holds either rows, all of the same whole number of bytes, or what
// the layer has once (docs/formats.md).

#include "loadtest/workload/synthetic_layers.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/formats/weights_spec.h"
#include "loadtest/schedule/random_bits.h"
#include "loadtest/workload/random_operands.h"

namespace qgemm::loadtest {
namespace {

// A prime, so that its multiples modulo n differ as long as n is no multiple
// of it; large, so that equal rows of successive layers lie far apart.
constexpr int64_t kRowStep = 7919;

// `n` rows have `n` rotations; layers beyond them are drawn from other seeds.
uint64_t BaseSeed(const SyntheticLayer& layer) {
  const int64_t generation = layer.index / layer.n;
  return generation == 0 ? layer.seed
                         : MixBits(layer.seed ^ MixBits(generation));
}

absl::Status CheckRowMajor(const WeightsSpec& spec) {
  if (spec.format == WireFormat::kKbit &&
      spec.kbit_layout != KbitLayout::kFlat) {
    return absl::InvalidArgumentError(
        absl::StrCat("rotate rows: kbit layout ", Name(spec.kbit_layout),
                     ": must be ", Name(KbitLayout::kFlat)));
  }
  if (spec.format == WireFormat::kInt4 &&
      spec.int4_layout != Int4Layout::kPlain) {
    return absl::InvalidArgumentError(
        absl::StrCat("rotate rows: int4 layout ", Name(spec.int4_layout),
                     ": must be ", Name(Int4Layout::kPlain)));
  }
  return absl::OkStatus();
}

bool HoldsRows(const WeightsSpec& spec, Section section) {
  switch (section) {
    case Section::kCodebook:
    case Section::kGroupIndex:
      return false;
    case Section::kScales:
      return !spec.tensor_wide_scale;
    case Section::kBias:
    case Section::kZeros:
    case Section::kCodes:
      return true;
  }
  return false;
}

}  // namespace

std::string SyntheticName(const SyntheticLayer& layer) {
  return absl::StrCat("loadtest/", layer.format, "/", layer.k, "x", layer.n,
                      "/", layer.seed, "/", layer.index);
}

int64_t RowShift(int64_t index, int64_t n) {
  const int64_t step = n % kRowStep == 0 ? 1 : kRowStep % n;
  return index % n * step % n;
}

absl::StatusOr<EncodedWeights> RotateRows(const EncodedWeights& base,
                                          int64_t row_shift) {
  CHECK(row_shift >= 0 && row_shift < base.spec.n) << row_shift;
  RETURN_IF_ERROR(CheckRowMajor(base.spec));
  EncodedWeights rotated;
  rotated.spec = base.spec;
  for (const EncodedWeights::SectionBytes& from : base.sections) {
    const int64_t row_bytes = from.bytes.size() / base.spec.n;
    const auto first =
        from.bytes.begin() +
        (HoldsRows(base.spec, from.section) ? row_shift * row_bytes : 0);
    std::vector<uint8_t> bytes;
    bytes.reserve(from.bytes.size());
    bytes.assign(first, from.bytes.end());
    bytes.insert(bytes.end(), from.bytes.begin(), first);
    rotated.sections.push_back({from.section, std::move(bytes)});
  }
  return rotated;
}

absl::StatusOr<EncodedWeights> SyntheticLayers::Make(
    const SyntheticLayer& layer) {
  if (layer.n < 1 || layer.index < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        SyntheticName(layer), ": n = ", layer.n,
        " must be 1 or more, index = ", layer.index, " must be 0 or more"));
  }
  ASSIGN_OR_RETURN(const EncodedWeights* base, BaseOf(layer));
  return RotateRows(*base, RowShift(layer.index, layer.n));
}

absl::StatusOr<const EncodedWeights*> SyntheticLayers::BaseOf(
    SyntheticLayer layer) {
  layer.seed = BaseSeed(layer);
  layer.index = 0;
  const std::string key = SyntheticName(layer);
  const auto found = bases_.find(key);
  if (found != bases_.end()) return &found->second;
  ASSIGN_OR_RETURN(
      EncodedWeights drawn,
      MakeRandomWeights(layer.format, layer.k, layer.n, layer.seed));
  return &bases_.emplace(key, std::move(drawn)).first->second;
}

}  // namespace qgemm::loadtest
