// SPDX-License-Identifier: Apache-2.0
//
// Who moves a batch's rows between the host and the GPU: the copy engines, or
// kernels that read and write page-locked host memory.

#ifndef QGEMM_KERNELS_CUDA_TUNING_ROW_MOVES_H_
#define QGEMM_KERNELS_CUDA_TUNING_ROW_MOVES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/tuning/batch_plan.h"

namespace qgemm::cuda {

enum class RowMoves : uint8_t {
  kBySize,
  kByCopyEngines,  // for comparison
};

// "auto" or "copy_engines"; INVALID_ARGUMENT for others.
absl::StatusOr<RowMoves> ParseRowMoves(absl::string_view text);

// How batches are executed.
struct ExecutionPolicy {
  FamilyPolicy family;
  RowMoves row_moves = RowMoves::kBySize;
};

// Requests of a batch that kernels move: their addresses are arguments.
inline constexpr size_t kMaxMovedSegments = 64;
// Bytes of a batch's activations and results together that kernels move, at
// most. Copy engines take 2 us a request and wake the host later, but leave all
// multiprocessors to the multiplication. On an H100, 4096x4096, p50 by kernels
// and by copy engines in us: 1 request of 1 row 22 and 36, 64 of them 47 and
// 331; 8192x8192, 1 request of 64 rows 75 and 87.
inline constexpr int64_t kMaxMovedBytes = int64_t{16} << 20;
// What a kernel loads at once.
inline constexpr int64_t kMovedUnitBytes = 16;

// Whether kernels move the rows of a batch of so many segments.
bool MovesByKernels(const BatchPlan& plan, const BatchShape& shape,
                    size_t segments, RowMoves moves);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_TUNING_ROW_MOVES_H_
