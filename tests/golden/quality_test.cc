// SPDX-License-Identifier: Apache-2.0
//
// Fidelity of normally distributed weights after quantization to kbit: the
// floors that docs/formats.md promises.

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_encoder.h"
#include "kernels/matrix/canonical_weights.h"

namespace qgemm {
namespace {

// Enough weights that the ratio's standard deviation is about 0.02 dB, where
// the closest floor is 0.4 dB away.
constexpr int64_t kRows = 128;
constexpr int64_t kColumns = 2048;

struct Floor {
  int bits;
  double decibels;
};

class KbitQualityTest : public testing::TestWithParam<Floor> {};

// Energy of the weights over energy of their errors, in decibels.
double SignalToNoise(const std::vector<float>& w,
                     const CanonicalWeights& weights) {
  double signal = 0;
  double noise = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      const double exact = w[row * kColumns + column];
      const double error = weights.Weight(row, column) - exact;
      signal += exact * exact;
      noise += error * error;
    }
  }
  return 10 * std::log10(signal / noise);
}

TEST_P(KbitQualityTest, KeepsTheSignalOfNormalWeights) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> w(kRows * kColumns);
  for (float& weight : w) weight = normal(random);

  EncodeOptions options;
  options.bits = GetParam().bits;
  const absl::StatusOr<EncodedWeights> encoded =
      EncodeWeights(w, kRows, kColumns, {}, options);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  CanonicalWeights weights;
  const std::unique_ptr<WeightsDecoder> decoder =
      NewWeightsDecoder(encoded->spec, &weights);
  for (const EncodedWeights::SectionBytes& section : encoded->sections) {
    ASSERT_EQ(decoder->Append(section.section, section.bytes),
              absl::OkStatus());
  }
  ASSERT_EQ(decoder->Finish().status(), absl::OkStatus());
  const double decibels = SignalToNoise(w, weights);
  RecordProperty("decibels", std::to_string(decibels));
  EXPECT_GE(decibels, GetParam().decibels);
}

INSTANTIATE_TEST_SUITE_P(Widths, KbitQualityTest,
                         testing::Values(Floor{2, 6.9}, Floor{3, 14.5},
                                         Floor{4, 20.6}, Floor{5, 25.5}),
                         [](const testing::TestParamInfo<Floor>& info) {
                           return "Bits" + std::to_string(info.param.bits);
                         });

}  // namespace
}  // namespace qgemm
