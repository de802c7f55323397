// SPDX-License-Identifier: Apache-2.0
//
// Default codebooks from their positive halves; they are exactly
// antisymmetric.

#include "kernels/formats/codebooks.h"

#include <numeric>

#include "absl/types/span.h"
#include "base/check.h"

namespace qgemm {
namespace {

constexpr float kPositive2[] = {0.276993573f, 1.0f};
constexpr float kPositive3[] = {0.102541275f, 0.318603665f, 0.578276932f, 1.0f};
constexpr float kPositive4[] = {0.0420953855f, 0.127340987f, 0.215946302f,
                                0.310904741f,  0.416818887f, 0.542209148f,
                                0.707568824f,  1.0f};
constexpr float kPositive5[] = {
    0.0181886554f, 0.0546781458f, 0.0915090814f, 0.128925994f,
    0.167200953f,  0.206649229f,  0.247651234f,  0.290684968f,
    0.336377233f,  0.385589212f,  0.43957144f,   0.500268459f,
    0.570998311f,  0.658254206f,  0.778104544f,  1.0f};

absl::Span<const float> PositiveHalf(int bits) {
  switch (bits) {
    case 2:
      return kPositive2;
    case 3:
      return kPositive3;
    case 4:
      return kPositive4;
    case 5:
      return kPositive5;
  }
  LOG(FATAL) << "no default codebook of " << bits << " bits";
  return {};
}

}  // namespace

std::vector<float> DefaultKbitCodebook(int bits) {
  const absl::Span<const float> positive = PositiveHalf(bits);
  std::vector<float> codebook;
  for (auto it = positive.rbegin(); it != positive.rend(); ++it) {
    codebook.push_back(-*it);
  }
  codebook.insert(codebook.end(), positive.begin(), positive.end());
  return codebook;
}

std::vector<float> LinearCodebook16(int first) {
  std::vector<float> codebook(16);
  std::iota(codebook.begin(), codebook.end(), static_cast<float>(first));
  return codebook;
}

}  // namespace qgemm
