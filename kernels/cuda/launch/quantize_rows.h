// SPDX-License-Identifier: Apache-2.0
//
// Activations of mode A8: rounds rows to Q8_1 (docs/formats.md).

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_QUANTIZE_ROWS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_QUANTIZE_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// The layouts of q8_layout.h.
enum class Q8Order : uint8_t {
  kFragments,  // Q8LayoutOf(m, k), for few rows
  kPanels,     // Q8PanelLayoutOf(m, k), for many
};

inline constexpr int kMaxQuantizeRowsWords = 256;

// out = Q8_1(a) in that order. A block that is not finite has NaN for its
// scale. Columns from k on are zero, but panels have scales alone there; rows
// beyond m stay as they are.
struct QuantizeRowsArgs {
  const void* a = nullptr;  // device, [m, k] without gaps, 8-byte aligned
  FloatType a_type = FloatType::kFloat16;
  int64_t m = 0;
  int64_t k = 0;           // a multiple of 32
  uint8_t* out = nullptr;  // device, 16-byte aligned, not within a
  Q8Order order = Q8Order::kFragments;
  // Device words that are made zero, for the kernel after this one; at most
  // kMaxQuantizeRowsWords.
  unsigned* words = nullptr;
  int word_count = 0;
};

// Enqueues on `stream` and returns. Starts while the kernel before runs, waits
// for it, and lets the next one start (PDL). Errors: cudaErrorInvalidValue.
cudaError_t LaunchQuantizeRows(const QuantizeRowsArgs& args,
                               cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_QUANTIZE_ROWS_H_
