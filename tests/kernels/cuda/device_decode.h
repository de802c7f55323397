// SPDX-License-Identifier: Apache-2.0
//
// A layer on the GPU and launches of the decode kernel on it, as the backend
// makes them: activations prepared, then multiplied.

#ifndef QGEMM_TESTS_KERNELS_CUDA_DEVICE_DECODE_H_
#define QGEMM_TESTS_KERNELS_CUDA_DEVICE_DECODE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"
#include "tests/kernels/cuda/decode_shapes.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {

// Buffers that one stream's launches write. Results are [m, n] of fp32.
struct GemmBuffers {
  DeviceBuffer prepared;
  DeviceBuffer c;
};

// Thread-compatible; aborts where the device refuses.
class DeviceDecode {
 public:
  static constexpr int64_t kMaxM = 130;

  // Loads the layer, and kMaxM random rows of `a_type` for it.
  DeviceDecode(const CanonicalWeights& weights, const Device& device,
               FloatType a_type, RandomGenerator* random);

  int split_k() const;
  const std::vector<uint8_t>& a() const { return a_; }

  // Room for that many results, poisoned.
  GemmBuffers NewBuffers(int64_t results) const;

  // Result `index` becomes C of the first m rows. Allocates nothing.
  cudaError_t Enqueue(int64_t m, int64_t index, const GemmBuffers& buffers,
                      cudaStream_t stream) const;

  // C of m rows, once the device has done everything.
  std::vector<uint8_t> Read(int64_t m, int64_t index,
                            const GemmBuffers& buffers) const;

 private:
  int64_t result_bytes() const { return kMaxM * weights_->n() * 4; }

  const Device device_;
  FloatType a_type_;
  std::vector<uint8_t> a_;
  std::shared_ptr<const CudaWeights> weights_;
  DeviceBuffer device_a_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_DEVICE_DECODE_H_
