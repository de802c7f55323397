// SPDX-License-Identifier: Apache-2.0
//
// Every kind of weights in every signature gives C within the derived
// tolerance of fp64, element by element, over shapes around block borders.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/matrix/fp64_oracle.h"
#include "tests/conformance/batch_run.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/random_matrix.h"

namespace qgemm {
namespace {

// Multiply-adds of one product, to keep the fp64 oracle quick.
constexpr int64_t kLargestWork = int64_t{3} << 20;
// Trials of each signature, each with another shape.
constexpr int kRounds = 3;
constexpr int64_t kRows[] = {1,  2,  3,  4,  5,  7,  8,  9,  15,
                             16, 17, 31, 32, 33, 64, 65, 300};

struct Shape {
  int64_t m;
  int64_t n;
  int64_t k;
};

class AccuracyTest : public PerRecipeTest {
 protected:
  // The values of kRows in a random order, over and over.
  int64_t NextRows() {
    if (deck_.empty()) {
      deck_.assign(std::begin(kRows), std::end(kRows));
      std::shuffle(deck_.begin(), deck_.end(), *random());
    }
    const int64_t rows = deck_.back();
    deck_.pop_back();
    return rows;
  }

  Shape NextShape() {
    constexpr int64_t kNear[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
    Shape shape;
    shape.m = NextRows();
    do {
      shape.n = std::max<int64_t>(
          1, RandomElement(kNear, random()) + RandomInt(-1, 1, random()));
      shape.k = RandomLegalK(recipe(), 2200, random());
    } while (shape.m * shape.n * shape.k > kLargestWork);
    return shape;
  }

  OracleReport Judge(const CanonicalWeights& weights,
                     const std::shared_ptr<const ResidentWeights>& resident,
                     const MatmulSignature& signature, int64_t m) {
    const std::vector<uint8_t> a =
        RandomMatrix(signature.a_type, m, weights.header().k, random());
    const BatchResults results =
        RunBatch(backend(), {resident, signature, {{m, a}}});
    const OracleProduct oracle = Fp64Matmul(weights, signature, a, m);
    return CompareWithOracle(oracle, weights.header(), signature, results[0]);
  }

 private:
  std::vector<int64_t> deck_;
};

// True if backends must offer the mode for such a layer: wherever it is
// defined.
bool IsMandatory(const WeightsHeader& header, ComputeMode mode) {
  return mode == ComputeMode::kA16 ||
         (mode == ComputeMode::kA8 && header.supports_a8) ||
         (mode == ComputeMode::kA32 && header.integer_codes);
}

TEST_P(AccuracyTest, EveryElementIsWithinItsTolerance) {
  for (int round = 0; round < kRounds; ++round) {
    for (const MatmulSignature& signature : AllSignatures()) {
      const Shape shape = NextShape();
      const CanonicalWeights weights =
          RandomWeights(recipe(), shape.n, shape.k, random());
      const auto resident = LoadWhole(backend(), weights);
      const absl::Status offered =
          backend()->CheckSupport(*resident, signature);
      if (!offered.ok()) {
        EXPECT_FALSE(IsMandatory(weights.header(), signature.mode)) << offered;
        EXPECT_EQ(offered.code(), absl::StatusCode::kUnimplemented);
        continue;
      }
      const OracleReport report = Judge(weights, resident, signature, shape.m);
      EXPECT_EQ(report.compared, shape.m * shape.n);
      EXPECT_EQ(report.ToStatus(), absl::OkStatus())
          << NameOf(signature) << ", m n k = " << shape.m << " " << shape.n
          << " " << shape.k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Backends, AccuracyTest,
    testing::Combine(testing::ValuesIn(ConformanceBackends()),
                     testing::ValuesIn(AllWeightsRecipes())),
    BackendAndRecipeName);

// In mode A32, which promises fp32's accuracy.
class TernaryA32Test : public PerBackendTest {
 protected:
  static constexpr MatmulSignature kSignature = {
      FloatType::kFloat32, FloatType::kFloat32, ComputeMode::kA32};

  OracleReport Judge(const CanonicalWeights& weights,
                     const std::vector<uint8_t>& a, int64_t m) {
    const auto resident = LoadWhole(backend(), weights);
    const BatchResults results =
        RunBatch(backend(), {resident, kSignature, {{m, a}}});
    return CompareWithOracle(Fp64Matmul(weights, kSignature, a, m),
                             weights.header(), kSignature, results[0]);
  }
};

// docs/formats.md promises 1e-5 at this K; the norm over many elements shows
// a missing part of a split that a per-element bound would let pass.
TEST_P(TernaryA32Test, IsAsAccurateAsPromised) {
  constexpr int64_t kM = 4;
  constexpr int64_t kN = 64;
  constexpr int64_t kK = 16384;
  constexpr double kPromised = 1e-5;
  const CanonicalWeights weights =
      RandomWeights(WeightsRecipeNamed("ternary"), kN, kK, random());
  const OracleReport report =
      Judge(weights, RandomMatrix(kSignature.a_type, kM, kK, random()), kM);
  EXPECT_LT(report.relative_norm, kPromised);
}

// A result whose weights are 0 where the largest activations are has the
// accuracy of those that it does depend on.
TEST_P(TernaryA32Test, KeepsSmallActivationsBesideLargeOnes) {
  constexpr int64_t kM = 5;
  constexpr int64_t kN = 48;
  constexpr int64_t kK = 300;
  std::vector<uint8_t> a = RandomMatrix(kSignature.a_type, kM, kK, random());
  for (int64_t i = 0; i < kM * kK; ++i) {
    const bool large = RandomInt(0, 127, random()) == 0;
    const int exponent = static_cast<int>(large ? RandomInt(30, 60, random())
                                                : RandomInt(-30, 0, random()));
    uint8_t* const place = &a[i * SizeOf(kSignature.a_type)];
    StoreFloat(kSignature.a_type,
               std::ldexp(LoadFloat(kSignature.a_type, place), exponent),
               place);
  }
  const CanonicalWeights weights =
      RandomWeights(WeightsRecipeNamed("ternary"), kN, kK, random());
  EXPECT_EQ(Judge(weights, a, kM).ToStatus(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Backends, TernaryA32Test,
                         testing::ValuesIn(ConformanceBackends()), BackendName);

}  // namespace
}  // namespace qgemm
