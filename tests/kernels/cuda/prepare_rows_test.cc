// SPDX-License-Identifier: Apache-2.0
//
// Prepared rows are the input's elements in the layer's order, rounded once.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/rows.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/matrix/types.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/random_matrix.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

constexpr FloatType kTypes[] = {FloatType::kFloat32, FloatType::kFloat16,
                                FloatType::kBFloat16};

DeviceBuffer Upload(const void* bytes, int64_t count) {
  auto buffer = DeviceBuffer::Allocate(count);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(cudaMemcpy(buffer->data(), bytes, count, cudaMemcpyHostToDevice),
            cudaSuccess);
  return *std::move(buffer);
}

class PrepareRowsTest : public DeviceTest {
 protected:
  // Prepares random rows and compares; an empty order is none.
  void Check(PrepareRowsArgs args, const std::vector<int32_t>& order) {
    const std::vector<uint8_t> a =
        RandomMatrix(args.a_type, args.m, args.k, &random_);
    const DeviceBuffer device_a =
        Upload(a.data(), static_cast<int64_t>(a.size()));
    const DeviceBuffer device_order =
        Upload(order.data(), static_cast<int64_t>(order.size() * 4));
    std::vector<uint8_t> out(args.m * args.ldo * 2, 0xff);
    const DeviceBuffer device_out =
        Upload(out.data(), static_cast<int64_t>(out.size()));
    args.a = device_a.data();
    args.out = device_out.data();
    args.permutation = reinterpret_cast<const int32_t*>(device_order.data());
    ASSERT_EQ(LaunchPrepareRows(args, nullptr), cudaSuccess);
    ASSERT_EQ(
        cudaMemcpy(out.data(), args.out, out.size(), cudaMemcpyDeviceToHost),
        cudaSuccess);
    const int64_t size = SizeOf(args.a_type);
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < args.ldo; ++j) {
        float expected = 0;
        if (j < args.k) {
          const int64_t column = order.empty() ? j : order[j];
          expected = LoadFloat(args.a_type, &a[(i * args.k + column) * size]);
        }
        ASSERT_EQ(LoadFloat(args.out_type, &out[(i * args.ldo + j) * 2]),
                  RoundTo(args.out_type, expected))
            << "row " << i << ", column " << j << ", k = " << args.k;
      }
    }
  }

  RandomGenerator random_{FreshSeed()};
};

TEST_F(PrepareRowsTest, GathersConvertsAndPads) {
  for (FloatType a_type : kTypes) {
    for (FloatType out_type : {FloatType::kFloat16, FloatType::kBFloat16}) {
      for (int64_t k : {1, 7, 8, 129, 1000, 4096}) {
        PrepareRowsArgs args;
        args.a_type = a_type;
        args.out_type = out_type;
        args.m = RandomInt(1, 70, &random_);
        args.k = k;
        args.ldo = RoundUp(k, RandomInt(0, 1, &random_) == 0 ? 8 : 128);
        std::vector<int32_t> order(k);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        Check(args, order);
        Check(args, {});
      }
    }
  }
}

TEST_F(PrepareRowsTest, RefusesWhatItCannotStore) {
  PrepareRowsArgs args;
  args.m = 1;
  args.k = 12;
  args.ldo = 12;
  EXPECT_EQ(LaunchPrepareRows(args, nullptr), cudaErrorInvalidValue);
  args.ldo = 8;
  EXPECT_EQ(LaunchPrepareRows(args, nullptr), cudaErrorInvalidValue);
  args.ldo = 16;
  args.out_type = FloatType::kFloat32;
  EXPECT_EQ(LaunchPrepareRows(args, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace qgemm::cuda
