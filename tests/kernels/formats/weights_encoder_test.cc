// SPDX-License-Identifier: Apache-2.0

#include "kernels/formats/weights_encoder.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/e4m4.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

EncodeOptions To(QuantizeTarget target) {
  EncodeOptions options;
  options.target = target;
  return options;
}

EncodeOptions ToKbit(int bits) {
  EncodeOptions options = To(QuantizeTarget::kKbit);
  options.bits = bits;
  return options;
}

CanonicalWeights EncodeAndDecode(const std::vector<float>& w, int64_t n,
                                 int64_t k, const EncodeOptions& options) {
  const auto encoded = EncodeWeights(w, n, k, {}, options);
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  if (!encoded.ok()) return {};
  const auto decoded = Upload(*encoded).Decode();
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return decoded.ok() ? decoded->weights : CanonicalWeights();
}

double SignalToNoiseDb(const std::vector<float>& w,
                       const CanonicalWeights& weights) {
  double signal = 0;
  double noise = 0;
  const int64_t k = weights.header().k;
  for (size_t i = 0; i < w.size(); ++i) {
    const double error = weights.Weight(i / k, i % k) - w[i];
    signal += double{w[i]} * w[i];
    noise += error * error;
  }
  return 10 * std::log10(signal / noise);
}

TEST(EncodeWeights, KbitReachesItsQualityOnGaussianWeights) {
  FreshRandom random;
  const std::vector<float> w = random.Gaussian(256 * 1024);
  // docs/formats.md#kbit.
  const double floors[] = {6.9, 14.5, 20.6, 25.5};
  for (int bits = 2; bits <= 5; ++bits) {
    const CanonicalWeights weights =
        EncodeAndDecode(w, 256, 1024, ToKbit(bits));
    EXPECT_GE(SignalToNoiseDb(w, weights), floors[bits - 2]) << bits;
  }
}

TEST(EncodeWeights, KbitErrorIsAtMostHalfAGapOfTheCodebook) {
  FreshRandom random;
  const std::vector<float> w = random.Gaussian(8 * 256);
  for (int bits = 2; bits <= 5; ++bits) {
    EncodeOptions options = ToKbit(bits);
    const CanonicalWeights weights = EncodeAndDecode(w, 8, 256, options);
    const std::vector<float>& codebook = weights.header().codebook;
    double gap = 0;
    for (size_t i = 1; i < codebook.size(); ++i) {
      gap = std::max(gap, double{codebook[i]} - codebook[i - 1]);
    }
    for (size_t i = 0; i < w.size(); ++i) {
      float absmax = 0;
      for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
        absmax = std::max(absmax, std::fabs(w[j]));
      }
      // Half a gap, and the scale's rounding: E4M4 has 4 bits after the
      // leading one, and its largest mantissa takes what would carry.
      const double bound = absmax * (gap / 2 + 1.0 / 31);
      ASSERT_LE(std::fabs(weights.Weight(i / 256, i % 256) - w[i]), bound);
    }
  }
}

TEST(EncodeWeights, Q4_0IsWithinItsStep) {
  FreshRandom random;
  const std::vector<float> w = random.Gaussian(8 * 256);
  const CanonicalWeights weights =
      EncodeAndDecode(w, 8, 256, To(QuantizeTarget::kQ4_0));
  for (size_t i = 0; i < w.size(); ++i) {
    const double d = std::fabs(
        LoadScale(ScaleType::kFloat16, &weights.scales()[i / 32 * 2]));
    // Half a step, but a whole one at the end of the range opposite to the
    // extreme (+8 does not exist), and 8 steps times fp16's rounding.
    const double bound = d * (1 + 8 * 0x1p-11);
    ASSERT_LE(std::fabs(weights.Weight(i / 256, i % 256) - w[i]), bound);
  }
}

TEST(EncodeWeights, Q4_0FollowsTheReferenceOnKnownBlocks) {
  std::vector<float> w(64, 0.0f);  // the first block is all zero
  w[32] = -4.0f;
  w[33] = 4.0f;  // as large, but later: d = 0.5, and 8 is out of reach
  w[34] = 0.25f;
  w[35] = -0.25f;
  w[36] = 1.5f;
  const CanonicalWeights weights =
      EncodeAndDecode(w, 1, 64, To(QuantizeTarget::kQ4_0));
  EXPECT_EQ(weights.Weight(0, 0), 0.0);
  EXPECT_EQ(weights.codes()[0], 8);
  EXPECT_EQ(weights.codes()[32], 0);
  EXPECT_EQ(weights.codes()[33], 15);
  EXPECT_EQ(weights.codes()[34], 9);  // 9.0 after the half is added
  EXPECT_EQ(weights.codes()[35], 8);  // 8.0
  EXPECT_EQ(weights.codes()[36], 11);
}

TEST(EncodeWeights, Int4SymmetricFollowsTheFormula) {
  FreshRandom random;
  EncodeOptions options = To(QuantizeTarget::kInt4);
  options.scale_type = ScaleType::kFloat32;
  for (const int64_t group : {0, 32, 64, 128}) {
    constexpr int64_t kColumns = 75;
    options.group_size = group;
    const std::vector<float> w = random.Gaussian(2 * kColumns);
    const CanonicalWeights weights = EncodeAndDecode(w, 2, kColumns, options);
    const int64_t size = group == 0 ? kColumns : group;
    for (size_t i = 0; i < w.size(); ++i) {
      const int64_t row = i / kColumns;
      const int64_t column = i % kColumns;
      float absmax = 0;
      for (int64_t j = column / size * size;
           j < std::min(kColumns, (column / size + 1) * size); ++j) {
        absmax = std::max(absmax, std::fabs(w[row * kColumns + j]));
      }
      const float scale = absmax / 7.0f;
      const double code =
          std::min(15.0, std::max(0.0, std::nearbyint(w[i] / scale) + 8.0));
      ASSERT_EQ(weights.Weight(row, column), (code - 8) * scale);
    }
  }
}

TEST(EncodeWeights, Int4AsymmetricIsWithinOneStep) {
  FreshRandom random;
  EncodeOptions options = To(QuantizeTarget::kInt4);
  options.scale_type = ScaleType::kFloat32;
  options.asymmetric = true;
  options.group_size = 32;
  std::vector<float> w;
  // Around zero, above and below it.
  for (const float shift : {0.0f, 5.0f, -5.0f}) {
    for (int i = 0; i < 64; ++i) w.push_back(random.Uniform(-1, 1) + shift);
  }
  const CanonicalWeights weights = EncodeAndDecode(w, 3, 64, options);
  for (size_t i = 0; i < w.size(); ++i) {
    const double scale =
        LoadScale(ScaleType::kFloat32, &weights.scales()[i / 32 * 4]);
    // Half a step for the code, half a step for the zero.
    ASSERT_LE(std::fabs(weights.Weight(i / 64, i % 64) - w[i]),
              scale * (1 + 0x1p-20))
        << i;
  }
}

TEST(EncodeWeights, Int4OfZerosIsZero) {
  for (const bool asymmetric : {false, true}) {
    EncodeOptions options = To(QuantizeTarget::kInt4);
    options.asymmetric = asymmetric;
    const CanonicalWeights weights =
        EncodeAndDecode(std::vector<float>(40, 0.0f), 1, 40, options);
    for (int i = 0; i < 40; ++i) EXPECT_EQ(weights.Weight(0, i), 0.0);
  }
}

TEST(EncodeWeights, TernaryFollowsTheFormulaInEveryCoding) {
  FreshRandom random;
  constexpr int64_t kColumns = 37;
  std::vector<float> w = random.Gaussian(3 * kColumns);
  std::fill_n(w.begin() + kColumns, kColumns, 0.0f);  // a row of zeros
  for (const TernaryCoding coding :
       {TernaryCoding::kInt8, TernaryCoding::kPacked012,
        TernaryCoding::kPacked123}) {
    EncodeOptions options = To(QuantizeTarget::kTernary);
    options.ternary_coding = coding;
    const CanonicalWeights weights = EncodeAndDecode(w, 3, kColumns, options);
    for (int64_t row = 0; row < 3; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < kColumns; ++i) {
        sum += std::fabs(w[row * kColumns + i]);
      }
      const float scale = static_cast<float>(sum / kColumns);
      for (int64_t i = 0; i < kColumns; ++i) {
        const float ratio = scale == 0 ? 0 : w[row * kColumns + i] / scale;
        const double t = std::min(1.0f, std::max(-1.0f, std::nearbyint(ratio)));
        ASSERT_EQ(weights.Weight(row, i), t * scale);
      }
    }
  }
}

// The form that the server gives the same weights of a dense upload.
CanonicalWeights QuantizeOnServer(const std::vector<float>& w, int64_t n,
                                  int64_t k, const EncodeOptions& options) {
  WeightsSpec spec = DenseSpec(n, k, FloatType::kFloat32);
  spec.quantize_to = options.target;
  if (options.target == QuantizeTarget::kKbit) {
    spec.bits = options.bits;
    spec.has_codebook = !options.codebook.empty();
  }
  if (options.target == QuantizeTarget::kInt4) {
    spec.group_size = options.group_size;
    spec.has_zeros = options.asymmetric;
  }
  Upload upload(spec);
  for (size_t i = 0; i < options.codebook.size(); ++i) {
    upload.Put(Section::kCodebook, i, options.codebook[i]);
  }
  for (size_t i = 0; i < w.size(); ++i) upload.Put(Section::kCodes, i, w[i]);
  const auto decoded = upload.Decode(777);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return decoded.ok() ? decoded->weights : CanonicalWeights();
}

TEST(EncodeWeights, ClientAndServerQuantizeAlike) {
  FreshRandom random;
  EncodeOptions asymmetric = To(QuantizeTarget::kInt4);
  asymmetric.asymmetric = true;
  asymmetric.group_size = 32;
  EncodeOptions codebook = ToKbit(2);
  codebook.codebook = {0.0f, 1.0f, -1.0f, 0.3f};
  // Without and with a tensor scale, up and down.
  for (const float size : {1.0f, 1e-6f, 1e4f}) {
    std::vector<float> w = random.Gaussian(5 * 160);
    for (float& weight : w) weight *= size;
    for (const EncodeOptions& options :
         {ToKbit(2), ToKbit(3), ToKbit(4), ToKbit(5), codebook, asymmetric,
          To(QuantizeTarget::kQ4_0), To(QuantizeTarget::kInt4),
          To(QuantizeTarget::kTernary)}) {
      EXPECT_TRUE(SameWeights(EncodeAndDecode(w, 5, 160, options),
                              QuantizeOnServer(w, 5, 160, options)))
          << Name(options.target) << options.bits << " at " << size;
    }
  }
}

TEST(EncodeWeights, E4m4AbsmaxBecomesFp32WhereATensorScaleIsNeeded) {
  std::vector<float> w(64, 1.0f);
  auto encoded = EncodeWeights(w, 1, 64, {}, ToKbit(4));
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(encoded->spec.scale_type, ScaleType::kE4m4);
  w[0] = 32.0f;
  encoded = EncodeWeights(w, 1, 64, {}, ToKbit(4));
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(encoded->spec.scale_type, ScaleType::kFloat32);
}

TEST(EncodeWeights, SectionsAreThoseOfTheSpec) {
  FreshRandom random;
  const std::vector<float> w = random.Gaussian(4 * 64);
  const std::vector<float> bias = random.Gaussian(4);
  EncodeOptions nf = ToKbit(2);
  nf.codebook = {-1.0f, 0.0f, 0.5f, 1.0f};
  EncodeOptions asymmetric = To(QuantizeTarget::kInt4);
  asymmetric.asymmetric = true;
  for (const EncodeOptions& options :
       {nf, ToKbit(5), asymmetric, To(QuantizeTarget::kQ4_0),
        To(QuantizeTarget::kInt4), To(QuantizeTarget::kTernary)}) {
    const auto encoded = EncodeWeights(w, 4, 64, bias, options);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    const std::vector<SectionSize> sizes = SectionsOf(encoded->spec);
    ASSERT_EQ(encoded->sections.size(), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(encoded->sections[i].section, sizes[i].section);
      EXPECT_EQ(encoded->sections[i].bytes.size(), sizes[i].bytes);
    }
    const auto decoded = Upload(*encoded).Decode();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->weights.header().bias, bias);
  }
}

void ExpectRefused(const absl::StatusOr<EncodedWeights>& encoded,
                   const std::string& text) {
  EXPECT_EQ(encoded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(encoded.status().message()), HasSubstr(text));
}

TEST(EncodeWeights, RefusesWhatItCannotEncode) {
  const std::vector<float> w(64, 1.0f);
  const int64_t huge = std::numeric_limits<int64_t>::max();
  ExpectRefused(EncodeWeights(w, 0, 64, {}, ToKbit(4)), "n = 0");
  ExpectRefused(EncodeWeights(w, huge, huge, {}, ToKbit(4)), "n = ");
  ExpectRefused(EncodeWeights(w, 1, 63, {}, ToKbit(4)), "k = 63");
  ExpectRefused(EncodeWeights(w, 2, 64, {}, ToKbit(4)),
                "w has 64 values: must be 128");
  ExpectRefused(EncodeWeights(w, 1, 64, w, ToKbit(4)),
                "bias has 64 values: must be 1");
  ExpectRefused(EncodeWeights(w, 1, 64, {}, ToKbit(6)), "bits = 6");
  ExpectRefused(EncodeWeights(w, 1, 64, {}, To(QuantizeTarget::kNone)),
                "target = none");
  EncodeOptions options = ToKbit(4);
  options.codebook = {1.0f};
  ExpectRefused(EncodeWeights(w, 1, 64, {}, options),
                "codebook has 1 values: must be 16");
  options = To(QuantizeTarget::kInt4);
  options.group_size = 48;
  ExpectRefused(EncodeWeights(w, 1, 64, {}, options), "group_size = 48");
}

TEST(EncodeWeights, NamesTheWeightThatIsNotFinite) {
  std::vector<float> w(2 * 64, 1.0f);
  w[64 + 7] = std::nanf("");
  for (const QuantizeTarget target :
       {QuantizeTarget::kKbit, QuantizeTarget::kQ4_0, QuantizeTarget::kInt4,
        QuantizeTarget::kTernary}) {
    ExpectRefused(EncodeWeights(w, 2, 64, {}, To(target)), "row 1, column 7");
  }
}

}  // namespace
}  // namespace qgemm
