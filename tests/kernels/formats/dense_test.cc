// SPDX-License-Identifier: Apache-2.0

#include "kernels/formats/dense.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

Upload Fp32Upload(const WeightsSpec& spec, const std::vector<float>& w) {
  Upload upload(spec);
  for (size_t i = 0; i < w.size(); ++i) upload.Put(Section::kCodes, i, w[i]);
  return upload;
}

TEST(DenseDecoder, KeepsHalfTypesBitForBit) {
  FreshRandom random;
  for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
    WeightsSpec spec = DenseSpec(3, 17, type);
    spec.resident_type = type;
    Upload upload(spec);
    upload[Section::kCodes] = random.Bytes(3 * 17 * 2);  // NaN, too
    const auto decoded = upload.Decode();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->weights.dense(), upload[Section::kCodes]);
  }
}

TEST(DenseDecoder, RoundsFp32Once) {
  FreshRandom random;
  for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
    WeightsSpec spec = DenseSpec(3, 17, FloatType::kFloat32);
    spec.resident_type = type;
    const std::vector<float> w = random.Gaussian(3 * 17);
    const auto decoded = Fp32Upload(spec, w).Decode();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    for (size_t i = 0; i < w.size(); ++i) {
      EXPECT_EQ(decoded->weights.Weight(i / 17, i % 17), RoundTo(type, w[i]));
    }
  }
}

TEST(DenseDecoder, Fp16OverflowNamesRowAndColumn) {
  WeightsSpec spec = DenseSpec(2, 3, FloatType::kFloat32);
  std::vector<float> w(6, 65519.0f);  // rounds to 65504
  EXPECT_TRUE(Fp32Upload(spec, w).Decode().ok());
  w[4] = -65520.0f;
  const absl::Status status = Fp32Upload(spec, w).Decode().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("row 1, column 1 = -65520: too large for fp16"));
}

TEST(DenseDecoder, KeepsInfinityAndNan) {
  const WeightsSpec spec = DenseSpec(1, 2, FloatType::kFloat32);
  const auto decoded = Fp32Upload(spec, {1.0f / 0.0f, std::nanf("")}).Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(std::isinf(decoded->weights.Weight(0, 0)));
  EXPECT_TRUE(std::isnan(decoded->weights.Weight(0, 1)));
}

std::vector<WeightsSpec> QuantizingSpecs(FloatType type) {
  std::vector<WeightsSpec> specs(4, DenseSpec(3, 64, type));
  specs[0].quantize_to = QuantizeTarget::kKbit;
  specs[0].bits = 4;
  specs[1].quantize_to = QuantizeTarget::kQ4_0;
  specs[2].quantize_to = QuantizeTarget::kInt4;
  specs[3].quantize_to = QuantizeTarget::kTernary;
  return specs;
}

TEST(QuantizingDecoder, WeightsMustBeFinite) {
  for (const WeightsSpec& spec : QuantizingSpecs(FloatType::kFloat32)) {
    for (const float bad : {1.0f / 0.0f, -1.0f / 0.0f, std::nanf("")}) {
      std::vector<float> w(3 * 64, 1.0f);
      w[2 * 64 + 33] = bad;
      const absl::Status status = Fp32Upload(spec, w).Decode().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("row 2, column 33"));
    }
  }
}

TEST(QuantizingDecoder, HalfTypesQuantizeAsTheirFp32Values) {
  FreshRandom random;
  for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
    const auto halves = QuantizingSpecs(type);
    const auto floats = QuantizingSpecs(FloatType::kFloat32);
    for (size_t i = 0; i < halves.size(); ++i) {
      Upload upload = RandomUpload(halves[i], &random);
      std::vector<float> w;
      for (int64_t j = 0; j < 3 * 64; ++j) {
        w.push_back(LoadFloat(type, &upload[Section::kCodes][2 * j]));
      }
      const auto expected = Fp32Upload(floats[i], w).Decode();
      const auto decoded = upload.Decode();
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_TRUE(SameWeights(decoded->weights, expected->weights));
    }
  }
}

TEST(QuantizingDecoder, KbitChoosesATensorScaleOverAllRows) {
  WeightsSpec spec = QuantizingSpecs(FloatType::kFloat32)[0];
  std::vector<float> w(3 * 64, 1.0f);
  w.back() = 1000.0f;  // 62.5 at a tensor scale of 16, 31.25 at 32
  const auto decoded = Fp32Upload(spec, w).Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights.tensor_scale(), 64.0f);
  EXPECT_EQ(decoded->weights.Weight(0, 0), 1.0);
}

TEST(QuantizingDecoder, ScaleThatOverflowsNamesRowAndGroup) {
  WeightsSpec spec = DenseSpec(3, 64, FloatType::kFloat32);
  spec.quantize_to = QuantizeTarget::kQ4_0;
  std::vector<float> w(3 * 64, 1.0f);
  w[2 * 64 + 33] = 1e6f;  // d = -125000
  const absl::Status status = Fp32Upload(spec, w).Decode().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("row 2, group 1: its scale -125000 is too large"));
}

TEST(QuantizingDecoder, ScaleThatVanishesIsCounted) {
  WeightsSpec spec = DenseSpec(1, 64, FloatType::kFloat32);
  spec.quantize_to = QuantizeTarget::kQ4_0;
  std::vector<float> w(64, 1.0f);
  for (int i = 0; i < 32; ++i) w[i] = 1e-20f;
  const auto decoded = Fp32Upload(spec, w).Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->report.flushed_blocks, 1);
}

}  // namespace
}  // namespace qgemm
