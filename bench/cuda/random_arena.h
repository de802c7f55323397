// SPDX-License-Identifier: Apache-2.0
//
// Device memory full of random values: activations, and dense weights.

#ifndef QGEMM_BENCH_CUDA_RANDOM_ARENA_H_
#define QGEMM_BENCH_CUDA_RANDOM_ARENA_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Used by one thread at a time.
class RandomArena {
 public:
  // Magnitudes are below `magnitude`, none is zero.
  explicit RandomArena(float magnitude) : magnitude_(magnitude) {}

  // At least `elements` values, the same at every call for a type; valid until
  // the next call. Filling is enqueued on `stream`. RESOURCE_EXHAUSTED.
  absl::StatusOr<const uint8_t*> Take(FloatType type, int64_t elements,
                                      cudaStream_t stream);

 private:
  const float magnitude_;
  DeviceBuffer memory_;
  FloatType type_ = FloatType::kFloat32;
  int64_t filled_elements_ = 0;  // of type_
};

// Makes the buffer hold at least `size_bytes`; what it held is lost if it
// grows. RESOURCE_EXHAUSTED.
absl::Status GrowBuffer(int64_t size_bytes, DeviceBuffer& buffer);

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_RANDOM_ARENA_H_
