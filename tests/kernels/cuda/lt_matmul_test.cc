// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt as it is called here: strides, types and alpha against fp64.

#include "kernels/cuda/cublas/lt_matmul.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime/buffers.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/random_matrix.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

constexpr float kAlpha = 0.5f;

DeviceBuffer Allocate(int64_t size_bytes) {
  absl::StatusOr<DeviceBuffer> buffer = DeviceBuffer::Allocate(size_bytes);
  CHECK(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

DeviceBuffer Copy(const std::vector<uint8_t>& bytes) {
  DeviceBuffer buffer = Allocate(static_cast<int64_t>(bytes.size()));
  CHECK_EQ(cudaMemcpy(buffer.data(), bytes.data(), bytes.size(),
                      cudaMemcpyHostToDevice),
           cudaSuccess);
  return buffer;
}

class LtMatmulTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto matmul = LtMatmul::Create();
    if (absl::IsFailedPrecondition(matmul.status())) {
      GTEST_SKIP() << matmul.status();
    }
    ASSERT_TRUE(matmul.ok()) << matmul.status();
    matmul_ = *std::move(matmul);
    workspace_ = Allocate(LtMatmul::kWorkspaceBytes);
  }

  // [m, c_stride], poisoned with NaN before.
  std::vector<uint8_t> Multiply(const LtShape& shape,
                                const std::vector<uint8_t>& a,
                                const std::vector<uint8_t>& w) {
    const DeviceBuffer device_a = Copy(a);
    const DeviceBuffer device_w = Copy(w);
    std::vector<uint8_t> result(shape.m * shape.c_stride *
                                SizeOf(shape.c_type));
    const DeviceBuffer c = Allocate(static_cast<int64_t>(result.size()));
    CHECK_EQ(cudaMemset(c.data(), 0xff, result.size()), cudaSuccess);
    const absl::Status status = matmul_->Enqueue(
        shape,
        {device_a.data(), device_w.data(), c.data(), kAlpha, workspace_.data()},
        nullptr);
    CHECK_OK(status);
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    CHECK_EQ(cudaMemcpy(result.data(), c.data(), result.size(),
                        cudaMemcpyDeviceToHost),
             cudaSuccess);
    return result;
  }

  void Check(const LtShape& shape) {
    const std::vector<uint8_t> a =
        RandomMatrix(shape.operand_type, shape.m, shape.a_stride, &random_);
    const std::vector<uint8_t> w =
        RandomMatrix(shape.operand_type, shape.n, shape.w_stride, &random_);
    const std::vector<uint8_t> c = Multiply(shape, a, w);
    // Each of k additions of fp32 rounds or truncates a sum that is at most
    // the magnitude; then one rounding to the type of C.
    const double step = static_cast<double>(shape.k) * std::ldexp(1, -23);
    const double last = shape.c_type == FloatType::kFloat32   ? 0
                        : shape.c_type == FloatType::kFloat16 ? 0x1p-11
                                                              : 0x1p-8;
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.c_stride; ++j) {
        const float actual = LoadFloat(
            shape.c_type, &c[(i * shape.c_stride + j) * SizeOf(shape.c_type)]);
        if (j >= shape.n) {
          ASSERT_TRUE(std::isnan(actual)) << "beside C: " << i << ", " << j;
          continue;
        }
        double sum = 0;
        double magnitude = 0;
        for (int64_t p = 0; p < shape.k; ++p) {
          const double product =
              double{LoadFloat(shape.operand_type,
                               &a[(i * shape.a_stride + p) * 2])} *
              LoadFloat(shape.operand_type, &w[(j * shape.w_stride + p) * 2]);
          sum += product;
          magnitude += std::fabs(product);
        }
        const double bound = kAlpha * magnitude * step;
        ASSERT_NEAR(actual, kAlpha * sum,
                    bound + last * (std::fabs(kAlpha * sum) + bound) + 0x1p-24)
            << i << ", " << j << " of m n k = " << shape.m << " " << shape.n
            << " " << shape.k;
      }
    }
  }

  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<LtMatmul> matmul_;
  DeviceBuffer workspace_;
};

TEST_F(LtMatmulTest, EveryTypeAndStrideIsWithinTheTolerance) {
  for (const FloatType operand : {FloatType::kFloat16, FloatType::kBFloat16}) {
    for (const FloatType c_type : {operand, FloatType::kFloat32}) {
      for (const int64_t n : {1, 40, 257}) {
        LtShape shape = {64, n, 200, 208, 200, RoundUp(n, 8) + 8};
        shape.operand_type = operand;
        shape.c_type = c_type;
        Check(shape);
      }
    }
  }
}

TEST_F(LtMatmulTest, LongSumsAreWithinTheTolerance) {
  LtShape shape = {64, 16, 8192, 8192, 8192, 16};
  shape.c_type = FloatType::kFloat32;
  Check(shape);
}

TEST_F(LtMatmulTest, EqualCallsGiveEqualBits) {
  LtShape shape = {192, 256, 4096, 4096, 4096, 256};
  const std::vector<uint8_t> a =
      RandomMatrix(shape.operand_type, shape.m, shape.k, &random_);
  const std::vector<uint8_t> w =
      RandomMatrix(shape.operand_type, shape.n, shape.k, &random_);
  const std::vector<uint8_t> first = Multiply(shape, a, w);
  for (int repeat = 0; repeat < 20; ++repeat) {
    ASSERT_TRUE(Multiply(shape, a, w) == first) << "repeat " << repeat;
  }
}

// Requests of few rows share a launch of 64, each in any place of it.
TEST_F(LtMatmulTest, APlaceAmong64RowsDoesNotChangeBits) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kMoved = 17;
  struct Layer {
    int64_t n;
    int64_t k;
  };
  for (const Layer& layer :
       {Layer{1024, 14336}, {2048, 8192}, {1000, 4096}, {8192, 512}}) {
    for (const FloatType operand :
         {FloatType::kFloat16, FloatType::kBFloat16}) {
      LtShape shape = {kRows, layer.n, layer.k, layer.k, layer.k, layer.n};
      shape.operand_type = operand;
      shape.c_type = operand;
      std::vector<uint8_t> a = RandomMatrix(operand, kRows, layer.k, &random_);
      const std::vector<uint8_t> w =
          RandomMatrix(operand, layer.n, layer.k, &random_);
      std::vector<uint8_t> c = Multiply(shape, a, w);
      std::rotate(a.begin(), a.begin() + kMoved * layer.k * 2, a.end());
      std::rotate(c.begin(), c.begin() + kMoved * layer.n * 2, c.end());
      EXPECT_TRUE(Multiply(shape, a, w) == c)
          << layer.n << " x " << layer.k << ", " << Name(operand);
    }
  }
}

}  // namespace
}  // namespace qgemm::cuda
