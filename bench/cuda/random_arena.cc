// SPDX-License-Identifier: Apache-2.0
//
// Filled anew where the type changes: that takes a few milliseconds.

#include "bench/cuda/random_arena.h"

#include "base/status_macros.h"
#include "bench/cuda/probe_kernels.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {

absl::Status GrowBuffer(int64_t size_bytes, DeviceBuffer& buffer) {
  if (buffer.size_bytes() >= size_bytes) return absl::OkStatus();
  // The old memory first, so that both need not fit.
  buffer = DeviceBuffer();
  ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(size_bytes));
  return absl::OkStatus();
}

absl::StatusOr<const uint8_t*> RandomArena::Take(FloatType type,
                                                 int64_t elements,
                                                 cudaStream_t stream) {
  if (type == type_ && elements <= filled_elements_) return memory_.data();
  filled_elements_ = 0;
  RETURN_IF_ERROR(GrowBuffer(elements * SizeOf(type), memory_));
  RETURN_IF_ERROR(ToStatus(
      LaunchFillRandom(type, elements, magnitude_, memory_.data(), stream),
      "fill memory with random values"));
  type_ = type;
  filled_elements_ = elements;
  return memory_.data();
}

}  // namespace qgemm::cuda
