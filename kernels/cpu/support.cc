// SPDX-License-Identifier: Apache-2.0
//
// The table of modes by kind of layer.

#include "kernels/cpu/support.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/row_preparation.h"

namespace qgemm {
namespace {

bool Offers(const CpuWeightsTraits& traits, ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kA16:
      return true;
    case ComputeMode::kA8:
      return !traits.dense && traits.supports_a8 && traits.bits == 4 &&
             !traits.has_zeros;
    case ComputeMode::kA32:
      return !traits.dense && traits.integer_codes;
  }
  return false;
}

std::string OfferedModes(const CpuWeightsTraits& traits) {
  std::string modes;
  for (ComputeMode mode :
       {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
    if (!Offers(traits, mode)) continue;
    absl::StrAppend(&modes, modes.empty() ? "" : ", ", Name(mode));
  }
  return modes;
}

// From how many rows on three products of bf16 parts are faster than one of
// fp32. Measured for kbit4: a block takes 33 instead of 62 ns at 8 rows, and as
// long at 4.
constexpr int64_t kSplitRows = 8;

MicrokernelKey BaseKeyOf(const CpuWeightsTraits& traits, ComputeMode mode) {
  if (traits.dense) {
    return {traits.dense_type == FloatType::kFloat16 ? kFamilyFloat16
                                                     : kFamilyBFloat16};
  }
  if (mode == ComputeMode::kA8) return {kFamilyW4A8, 4, false};
  return {kFamilyWqA32, traits.bits, traits.has_zeros};
}

}  // namespace

absl::Status CheckSignature(const CpuWeightsTraits& traits,
                            const MatmulSignature& signature) {
  if (!Offers(traits, signature.mode)) {
    return absl::UnimplementedError(
        absl::StrCat("mode ", Name(signature.mode),
                     " is not defined for these weights; the cpu backend "
                     "offers ",
                     OfferedModes(traits)));
  }
  if (signature.mode == ComputeMode::kA16 &&
      signature.a_type == FloatType::kFloat32 &&
      signature.rounding == FloatType::kFloat32) {
    return absl::InvalidArgumentError(
        "signature: rounding = fp32 in mode A16; legal: fp16, bf16");
  }
  return absl::OkStatus();
}

FamilyKeys KeysOf(const CpuWeightsTraits& traits,
                  const MatmulSignature& signature) {
  const MicrokernelKey base = BaseKeyOf(traits, signature.mode);
  if (traits.dense || signature.mode != ComputeMode::kA16 ||
      (traits.has_zeros && !traits.small_differences)) {
    return {base, base};
  }
  if (HalfTypeOf(signature) == FloatType::kBFloat16) {
    return {base, {kFamilyWqABFloat16, traits.bits, traits.has_zeros}};
  }
  return {base, {kFamilyWqAFloat16, traits.bits, traits.has_zeros}, kSplitRows};
}

}  // namespace qgemm
