// SPDX-License-Identifier: Apache-2.0
//
// The table of modes by kind of layer.

#include "kernels/cpu/support.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/row_conversion.h"
#include "kernels/host/batch_checks.h"

namespace qgemm::cpu {
namespace {

bool Offers(const WeightsShape& shape, ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kA16:
      return true;
    case ComputeMode::kA8:
      return !shape.dense && shape.supports_a8 && shape.bits == 4 &&
             !shape.has_zeros;
    case ComputeMode::kA32:
      return !shape.dense && shape.integer_codes;
  }
  return false;
}

std::string OfferedModes(const WeightsShape& shape) {
  std::string modes;
  for (ComputeMode mode :
       {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
    if (!Offers(shape, mode)) continue;
    absl::StrAppend(&modes, modes.empty() ? "" : ", ", Name(mode));
  }
  return modes;
}

// Rows from which three products of bf16 parts are faster than one of fp32.
// Measured for kbit4: a block takes 33 instead of 62 ns at 8 rows, and as long
// at 4.
constexpr int64_t kSplitRows = 8;

MicrokernelKey BaseKeyOf(const WeightsShape& shape, ComputeMode mode) {
  if (shape.dense) {
    return {shape.dense_type == FloatType::kFloat16 ? kFamilyFloat16
                                                    : kFamilyBFloat16};
  }
  if (mode == ComputeMode::kA8) return {kFamilyW4A8, 4, false};
  return {kFamilyQuantA32, shape.bits, shape.has_zeros};
}

}  // namespace

absl::Status CheckSignature(const WeightsShape& shape,
                            const MatmulSignature& signature) {
  if (!Offers(shape, signature.mode)) {
    return absl::UnimplementedError(
        absl::StrCat("mode ", Name(signature.mode),
                     " is not defined for these weights; the cpu backend "
                     "offers ",
                     OfferedModes(shape)));
  }
  return CheckRounding(signature);
}

FloatType EntryTypeOf(const MatmulSignature& signature) {
  const bool rounded = signature.mode == ComputeMode::kA16 &&
                       HalfTypeOf(signature) == FloatType::kBFloat16;
  return rounded ? FloatType::kBFloat16 : FloatType::kFloat32;
}

FamilyKeys KeysOf(const CpuWeights& weights, const MatmulSignature& signature) {
  const WeightsShape& shape = weights.shape();
  const MicrokernelKey base = BaseKeyOf(shape, signature.mode);
  if (shape.dense || signature.mode != ComputeMode::kA16 ||
      (shape.has_zeros && !weights.small_differences())) {
    return {base, base};
  }
  const auto key = [&shape](TileFamily family) {
    return MicrokernelKey{family, shape.bits, shape.has_zeros};
  };
  const bool is_bf16 = HalfTypeOf(signature) == FloatType::kBFloat16;
  FamilyKeys keys =
      is_bf16 ? FamilyKeys{base, key(kFamilyQuantABFloat16)}
              : FamilyKeys{base, key(kFamilyQuantAFloat16), kSplitRows};
  if (!weights.moderate_scales()) return keys;
  keys.scaled = key(is_bf16 ? kFamilyScaledABFloat16 : kFamilyScaledAFloat16);
  keys.scaled_rows = kScaledRows;
  return keys;
}

}  // namespace qgemm::cpu
