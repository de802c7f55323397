// SPDX-License-Identifier: Apache-2.0
//
// What the chooser between families of kernels was told of a device: measured
// thresholds, and the text file that carries them from the bench to the
// server.

#ifndef QGEMM_KERNELS_CUDA_TUNING_TUNING_H_
#define QGEMM_KERNELS_CUDA_TUNING_TUNING_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm::cuda {

// Rows that the small family may be given, in units of 64.
inline constexpr int64_t kMinSmallRowsLimit = 64;
inline constexpr int64_t kMaxSmallRowsLimit = 4096;

struct Tuning {
  // The device's name as its driver tells it; empty = any.
  std::string device;
  // Segments of at most so many rows go to the small family, fewer of layers
  // that fit the second-level cache (batch_plan.h), by code width:
  // [0] for 2 bits to [3] for 5. Multiples of 64 within the limits above.
  std::array<int64_t, 4> max_small_rows = {64, 64, 64, 64};
};

// Measured on an H100; what a server uses that is given no file.
Tuning DefaultTuning();

// JSON: {"version": 1, "device": "...", "max_small_rows": {"2": 64, ...}}.
std::string FormatTuning(const Tuning& tuning);

// INVALID_ARGUMENT names the field, its value and what is legal.
absl::StatusOr<Tuning> ParseTuning(absl::string_view text);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_TUNING_TUNING_H_
