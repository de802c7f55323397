// SPDX-License-Identifier: Apache-2.0
//
// Activations are prepared once, as the backend does it.

#include "tests/kernels/cuda/device_prefill.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/rows.h"
#include "kernels/cuda/plan/handed_sums.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/support/random_matrix.h"

namespace qgemm::cuda {
namespace {

// Guards before and behind C. Four of their bytes are a NaN in every type.
constexpr int64_t kGuardBytes = 4096;
constexpr uint8_t kPoison = 0xff;

bool IsPoison(std::vector<uint8_t>::const_iterator begin,
              std::vector<uint8_t>::const_iterator end) {
  return std::all_of(begin, end, [](uint8_t byte) { return byte == kPoison; });
}

}  // namespace

DevicePrefill::DevicePrefill(const CanonicalWeights& weights,
                             const Device& device, FloatType a_type,
                             RandomGenerator* random)
    : device_(device),
      a_type_(a_type),
      a_(RandomMatrix(a_type, kMaxM, weights.header().k, random)),
      weights_(Load(weights, device.traits)),
      lda_(RoundUp(weights_->k(), 8) + 8),
      prepared_(Allocate(kMaxM * lda_ * 2)),
      handed_(Allocate(kHandedBytes)),
      c_(Allocate(kMaxM * weights_->n() * 4 + 2 * kGuardBytes)) {
  const DeviceBuffer given = Allocate(static_cast<int64_t>(a_.size()));
  CHECK_EQ(
      cudaMemcpy(given.data(), a_.data(), a_.size(), cudaMemcpyHostToDevice),
      cudaSuccess);
  const TiledWeights& tiled = weights_->tiled();
  PrepareRowsArgs rows;
  rows.a = given.data();
  rows.a_type = a_type;
  rows.m = kMaxM;
  rows.k = weights_->k();
  rows.permutation = tiled.has_permutation ? tiled.permutation() : nullptr;
  rows.out_type = a_type;
  rows.out = prepared_.data();
  rows.ldo = lda_;
  CHECK_EQ(LaunchPrepareRows(rows, nullptr), cudaSuccess);
  CHECK_EQ(cudaMemset(handed_.data(), kPoison, handed_.size_bytes()),
           cudaSuccess);
  CHECK_EQ(cudaMemset(handed_.data() + kPrefillWordsOffset, 0,
                      kHandedWordsBytes - kPrefillWordsOffset),
           cudaSuccess);
  CHECK_EQ(cudaMemset2D(prepared_.data() + rows.k * 2, lda_ * 2, kPoison,
                        (lda_ - rows.k) * 2, kMaxM),
           cudaSuccess);
  CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

GemmOperands DevicePrefill::Operands(int64_t m, FloatType c_type) const {
  return OperandsFrom(0, m, c_type);
}

GemmOperands DevicePrefill::OperandsFrom(int64_t row, int64_t m,
                                         FloatType c_type) const {
  CHECK_LE(row + m, kMaxM);
  GemmOperands operands;
  operands.weights = weights_->tiled();
  operands.a = prepared_.data() + row * lda_ * 2;
  operands.lda = lda_;
  operands.a_type = a_type_;
  operands.c_type = c_type;
  operands.m = m;
  operands.handed = handed_.data();
  return operands;
}

int64_t DevicePrefill::ResultBytes(const GemmOperands& operands) const {
  return operands.m * weights_->n() * SizeOf(operands.c_type);
}

std::vector<uint8_t> DevicePrefill::Multiply(GemmOperands operands,
                                             const PrefillTiling& tiling,
                                             int64_t misalignment) const {
  const int64_t begin = kGuardBytes + misalignment;
  const int64_t end = begin + ResultBytes(operands);
  std::vector<uint8_t> memory(end + kGuardBytes - misalignment);
  CHECK_EQ(cudaMemset(c_.data(), kPoison, memory.size()), cudaSuccess);
  CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
  operands.c = c_.data() + begin;
  CHECK_EQ(LaunchPrefillGemm(device_, operands, nullptr, tiling), cudaSuccess);
  CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
  CHECK_EQ(cudaMemcpy(memory.data(), c_.data(), memory.size(),
                      cudaMemcpyDeviceToHost),
           cudaSuccess);
  EXPECT_TRUE(IsPoison(memory.begin(), memory.begin() + begin));
  std::vector<uint8_t> words(kHandedWordsBytes - kPrefillWordsOffset);
  CHECK_EQ(cudaMemcpy(words.data(), handed_.data() + kPrefillWordsOffset,
                      words.size(), cudaMemcpyDeviceToHost),
           cudaSuccess);
  EXPECT_EQ(std::count(words.begin(), words.end(), 0), words.size());
  EXPECT_TRUE(IsPoison(memory.begin() + end, memory.end()));
  return {memory.begin() + begin, memory.begin() + end};
}

}  // namespace qgemm::cuda
