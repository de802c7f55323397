// SPDX-License-Identifier: Apache-2.0
//
// A request's family of microkernels, and the scales that decide about it.

#include "kernels/cpu/support.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "base/byte_budget.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_weights.h"

namespace qgemm::cpu {
namespace {

WeightsHeader FourBitHeader(ScaleType scale_type) {
  WeightsHeader header;
  header.n = 2;
  header.k = 32;
  header.bits = 4;
  header.codebook.resize(16, 1.0f);
  header.group_size = 32;
  header.scale_type = scale_type;
  return header;
}

// A layer of two scales.
std::shared_ptr<const ResidentWeights> LayerOf(ScaleType scale_type,
                                               float first, float second) {
  ByteBudget budget({});
  BackendLimits limits;
  limits.max_n = 64;
  limits.max_k = 64;
  CpuWeightsBuilder builder(limits, {&budget, nullptr});
  const int64_t size = SizeOf(scale_type);
  std::vector<uint8_t> scales(2 * size);
  const FloatType type = scale_type == ScaleType::kFloat32 ? FloatType::kFloat32
                         : scale_type == ScaleType::kFloat16
                             ? FloatType::kFloat16
                             : FloatType::kBFloat16;
  StoreFloat(type, first, scales.data());
  StoreFloat(type, second, scales.data() + size);
  EXPECT_EQ(builder.Begin(FourBitHeader(scale_type)), absl::OkStatus());
  EXPECT_EQ(builder.WriteScales({0, 2, 0, 1, scales}), absl::OkStatus());
  return *builder.Finish();
}

FamilyKeys KeysFor(ScaleType scale_type, float first, float second,
                   FloatType type) {
  const auto layer = LayerOf(scale_type, first, second);
  MatmulSignature signature;
  signature.a_type = type;
  signature.c_type = type;
  return KeysOf(static_cast<const CpuWeights&>(*layer), signature);
}

TEST(SupportTest, ManyRowsTakeScaledWeightsInBothTypes) {
  const FamilyKeys fp16 =
      KeysFor(ScaleType::kFloat16, 0, 0x1p-24f, FloatType::kFloat16);
  EXPECT_EQ(fp16.base.family, kFamilyQuantA32);
  EXPECT_EQ(fp16.preferred.family, kFamilyQuantAFloat16);
  EXPECT_EQ(fp16.scaled.family, kFamilyScaledAFloat16);
  EXPECT_EQ(fp16.scaled_rows, 128);
  const FamilyKeys bf16 =
      KeysFor(ScaleType::kFloat32, -0x1p-64f, 0x1p32f, FloatType::kBFloat16);
  EXPECT_EQ(bf16.preferred.family, kFamilyQuantABFloat16);
  EXPECT_EQ(bf16.scaled.family, kFamilyScaledABFloat16);
  EXPECT_EQ(bf16.scaled_rows, 128);
}

TEST(SupportTest, ScalesThatBf16PartsCannotTakeStayWithSums) {
  for (const ScaleType type : {ScaleType::kFloat32, ScaleType::kBFloat16}) {
    for (const float scale : {0x1p-65f, -0x1p33f, 0x1p-130f}) {
      const FamilyKeys keys = KeysFor(type, 1, scale, FloatType::kFloat16);
      EXPECT_EQ(keys.preferred.family, kFamilyQuantAFloat16) << scale;
      EXPECT_EQ(keys.scaled_rows, FamilyKeys::kNever) << scale;
    }
  }
}

}  // namespace
}  // namespace qgemm::cpu
