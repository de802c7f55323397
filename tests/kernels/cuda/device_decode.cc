// SPDX-License-Identifier: Apache-2.0
//
// Through the builder and the launches themselves, without a backend.

#include "tests/kernels/cuda/device_decode.h"

#include "base/check.h"
#include "base/checked_math.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/rows.h"
#include "tests/support/random_matrix.h"

namespace qgemm::cuda {
DeviceDecode::DeviceDecode(const CanonicalWeights& weights,
                           const Device& device, FloatType a_type,
                           RandomGenerator* random)
    : device_(device),
      a_type_(a_type),
      a_(RandomMatrix(a_type, kMaxM, weights.header().k, random)),
      weights_(Load(weights, device.traits)),
      device_a_(Allocate(static_cast<int64_t>(a_.size()))) {
  CHECK_EQ(PrepareDecodeGemm(device), cudaSuccess);
  CHECK_EQ(cudaMemcpy(device_a_.data(), a_.data(), a_.size(),
                      cudaMemcpyHostToDevice),
           cudaSuccess);
}

int DeviceDecode::split_k() const {
  return weights_->tiled().layout.tile_config.split_k;
}

GemmBuffers DeviceDecode::NewBuffers(int64_t results) const {
  GemmBuffers buffers;
  buffers.prepared = Allocate(kMaxM * RoundUp(weights_->k(), 8) * 2);
  buffers.c = Allocate(results * result_bytes());
  CHECK_EQ(cudaMemset(buffers.c.data(), 0xff, buffers.c.size_bytes()),
           cudaSuccess);
  CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return buffers;
}

cudaError_t DeviceDecode::Enqueue(int64_t m, int64_t index,
                                  const GemmBuffers& buffers,
                                  cudaStream_t stream) const {
  const TiledWeights& tiled = weights_->tiled();
  PrepareRowsArgs rows;
  rows.a = device_a_.data();
  rows.a_type = a_type_;
  rows.m = m;
  rows.k = weights_->k();
  rows.permutation = tiled.has_permutation ? tiled.permutation() : nullptr;
  rows.out_type = a_type_;
  rows.out = buffers.prepared.data();
  rows.ldo = RoundUp(rows.k, 8);
  const cudaError_t prepared = LaunchPrepareRows(rows, stream);
  if (prepared != cudaSuccess) return prepared;
  GemmOperands operands;
  operands.weights = tiled;
  operands.a = rows.out;
  operands.lda = rows.ldo;
  operands.a_type = a_type_;
  operands.c = buffers.c.data() + index * result_bytes();
  operands.c_type = FloatType::kFloat32;
  operands.m = m;
  return LaunchDecodeGemm(device_, operands, stream);
}

std::vector<uint8_t> DeviceDecode::Read(int64_t m, int64_t index,
                                        const GemmBuffers& buffers) const {
  std::vector<uint8_t> c(m * weights_->n() * 4);
  CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
  CHECK_EQ(cudaMemcpy(c.data(), buffers.c.data() + index * result_bytes(),
                      c.size(), cudaMemcpyDeviceToHost),
           cudaSuccess);
  return c;
}

}  // namespace qgemm::cuda
