// SPDX-License-Identifier: Apache-2.0
//
// The signatures that the CPU backend computes for a layer, and the
// microkernels that do so. Pure.

#ifndef QGEMM_KERNELS_CPU_SUPPORT_H_
#define QGEMM_KERNELS_CPU_SUPPORT_H_

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/cpu/microkernel_table.h"
#include "kernels/matrix/types.h"

namespace qgemm::cpu {

// OK; UNIMPLEMENTED with the modes that such a layer offers; or
// INVALID_ARGUMENT.
absl::Status CheckSignature(const WeightsShape& shape,
                            const MatmulSignature& signature);

// The microkernels for a supported signature: `scaled` for requests of at least
// scaled_rows rows of their own, `preferred` for those of least_rows, where the
// instruction set has them, else `base`, which every set has. So a request's
// family does not depend on the requests that it is merged with.
struct FamilyKeys {
  MicrokernelKey base;
  MicrokernelKey preferred;
  int64_t least_rows = 1;
  MicrokernelKey scaled{};  // of no width: none
  int64_t scaled_rows = kNever;

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  friend bool operator==(const FamilyKeys& one, const FamilyKeys& other) {
    return one.base == other.base && one.preferred == other.preferred &&
           one.least_rows == other.least_rows && one.scaled == other.scaled &&
           one.scaled_rows == other.scaled_rows;
  }
  template <typename H>
  friend H AbslHashValue(H hash, const FamilyKeys& keys) {
    return H::combine(std::move(hash), keys.base, keys.preferred,
                      keys.least_rows, keys.scaled, keys.scaled_rows);
  }
};
FamilyKeys KeysOf(const CpuWeights& weights, const MatmulSignature& signature);

// Rows of a request from which weights that are multiplied by their scales
// first are surely faster: decoding a block takes 90 ns, its product with a
// strip of 16 rows 12 instead of 40. Measured for kbit4 in bf16.
inline constexpr int64_t kScaledRows = 128;

// Type that codebook entries are rounded to: bf16 where activations are (mode
// A16), else kFloat32, which stands for 16 significant bits.
FloatType EntryTypeOf(const MatmulSignature& signature);

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_SUPPORT_H_
