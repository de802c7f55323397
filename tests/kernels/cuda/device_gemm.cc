// SPDX-License-Identifier: Apache-2.0
//
// Through the builder and the launches themselves, without a backend.

#include "tests/kernels/cuda/device_gemm.h"

#include "base/check.h"
#include "base/checked_math.h"
#include "kernels/cuda/launch/prepare_rows.h"
#include "kernels/cuda/launch/wqa16_gemm.h"
#include "kernels/cuda/tuning/partition.h"
#include "tests/support/random_matrix.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kMostK = 4096;
constexpr int64_t kMostRowTiles = 2048;  // of a layer

// Two tiles a split; where K is in one part of blocks of four row tiles, more
// than a ring has slots.
int64_t LeastK(int splits, int row_tiles) {
  if (splits > 1) return 2 * splits * kTileColumns;
  return row_tiles == 4 ? kMostK : 8 * kTileColumns;
}

}  // namespace

std::optional<LayerShape> ShapeWith(int splits, int row_tiles,
                                    const DeviceTraits& device) {
  for (int64_t k = LeastK(splits, row_tiles); k <= kMostK; k *= 2) {
    for (int64_t tiles = 1; tiles <= kMostRowTiles; ++tiles) {
      const int64_t n = tiles * kTileRows - 3;
      const Partition partition = ChoosePartition({n, k}, device);
      if (partition.splits == splits && partition.row_tiles == row_tiles) {
        return LayerShape{n, k};
      }
    }
  }
  return std::nullopt;
}

DeviceGemm::DeviceGemm(const CanonicalWeights& weights,
                       const DeviceTraits& device, FloatType a_type,
                       RandomGenerator* random)
    : a_type_(a_type),
      a_(RandomMatrix(a_type, kMaxM, weights.header().k, random)),
      weights_(Load(weights, device)),
      device_a_(Allocate(static_cast<int64_t>(a_.size()))) {
  CHECK_EQ(PrepareWqa16Gemm(), cudaSuccess);
  CHECK_EQ(cudaMemcpy(device_a_.data(), a_.data(), a_.size(),
                      cudaMemcpyHostToDevice),
           cudaSuccess);
}

int DeviceGemm::splits() const {
  return weights_->tiled().layout.partition.splits;
}

GemmBuffers DeviceGemm::NewBuffers(int64_t results) const {
  GemmBuffers buffers;
  buffers.prepared = Allocate(kMaxM * RoundUp(weights_->k(), 8) * 2);
  buffers.c = Allocate(results * result_bytes());
  CHECK_EQ(cudaMemset(buffers.c.data(), 0xff, buffers.c.size_bytes()),
           cudaSuccess);
  CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return buffers;
}

cudaError_t DeviceGemm::Enqueue(int64_t m, int64_t index,
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
  return LaunchWqa16Gemm(operands, stream);
}

std::vector<uint8_t> DeviceGemm::Read(int64_t m, int64_t index,
                                      const GemmBuffers& buffers) const {
  std::vector<uint8_t> c(m * weights_->n() * 4);
  CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
  CHECK_EQ(cudaMemcpy(c.data(), buffers.c.data() + index * result_bytes(),
                      c.size(), cudaMemcpyDeviceToHost),
           cudaSuccess);
  return c;
}

}  // namespace qgemm::cuda
