// SPDX-License-Identifier: Apache-2.0
//
// Measured thresholds of a device for ChooseKernelPath, and the text file that
// carries them from the bench to the server.

#ifndef QGEMM_KERNELS_CUDA_PLAN_TUNING_H_
#define QGEMM_KERNELS_CUDA_PLAN_TUNING_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm::cuda {

// Rows that the decode kernel may be given, in units of 64.
inline constexpr int64_t kMinDecodeRowsLimit = 64;
inline constexpr int64_t kMaxDecodeRowsLimit = 4096;

struct Tuning {
  // The device's name as its driver tells it; empty = any.
  std::string device;
  // Segments of at most so many rows go to the decode kernel, fewer of layers
  // that fit the L2 (batch_plan.h), by code width:
  // [0] for 2 bits to [3] for 5. Multiples of 64 within the limits above.
  std::array<int64_t, 4> max_decode_rows = {64, 64, 64, 64};
};

// Measured on an H100; used where no file is given.
Tuning DefaultTuning();

// JSON: {"version": 2, "device": "...", "max_decode_rows": {"2": 64, ...}}.
std::string FormatTuning(const Tuning& tuning);

// INVALID_ARGUMENT names the field, its value and what is legal.
absl::StatusOr<Tuning> ParseTuning(absl::string_view text);

// Reads such a file. Errors name the path: NOT_FOUND (no such file),
// INVALID_ARGUMENT (the file cannot be read, or its text is no tuning).
absl::StatusOr<Tuning> ReadTuningFile(const std::string& path);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_TUNING_H_
