// SPDX-License-Identifier: Apache-2.0
//
// NaN and infinities in a row of A give NaN and infinities where fp64 gives
// them, and nothing anywhere else.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/matrix/fp64_oracle.h"
#include "tests/conformance/batch_run.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/random_matrix.h"

namespace qgemm {
namespace {

constexpr int64_t kRows = 9;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Finite in bf16 and fp32, infinite when rounded to fp16.
constexpr float kBeyondHalf = 1e30f;

// Special value that one row of A receives.
const std::vector<std::vector<float>>& Strikes() {
  static const auto* const strikes = new std::vector<std::vector<float>>{
      {kNan},
      {kInfinity},
      {-kInfinity},
      {kInfinity, -kInfinity},
      {kInfinity, kInfinity},
      {kBeyondHalf},
  };
  return *strikes;
}

class SpecialValuesTest : public PerRecipeTest {
 protected:
  void SetUp() override {
    PerRecipeTest::SetUp();
    if (backend() == nullptr) return;
    weights_ = RandomWeights(recipe(), RandomInt(2, 90, random()),
                             RandomLegalK(recipe(), 600, random()), random());
    resident_ = LoadWhole(backend(), weights_);
  }
  void TearDown() override { resident_.reset(); }

  int64_t n() const { return weights_.header().n; }
  int64_t k() const { return weights_.header().k; }
  const CanonicalWeights& weights() const { return weights_; }

  bool Supports(const MatmulSignature& signature) {
    return backend()->CheckSupport(*resident_, signature).ok();
  }

  std::vector<uint8_t> Multiply(const MatmulSignature& signature,
                                const std::vector<uint8_t>& a) {
    return RunBatch(backend(), {resident_, signature, {{kRows, a}}})[0];
  }

  // `a` with the values at random columns of row `row`.
  std::vector<uint8_t> Strike(const MatmulSignature& signature,
                              std::vector<uint8_t> a, int64_t row,
                              const std::vector<float>& values) {
    for (const float value : values) {
      const int64_t column = RandomInt(0, k() - 1, random());
      StoreFloat(signature.a_type, value,
                 &a[(row * k() + column) * SizeOf(signature.a_type)]);
    }
    return a;
  }

 private:
  CanonicalWeights weights_;
  std::shared_ptr<const ResidentWeights> resident_;
};

TEST_P(SpecialValuesTest, AppearWhereFp64HasThem) {
  for (const MatmulSignature& signature : AllSignatures()) {
    if (!Supports(signature)) continue;
    const std::vector<float> values = RandomElement(Strikes(), random());
    const std::vector<uint8_t> a =
        Strike(signature, RandomMatrix(signature.a_type, kRows, k(), random()),
               RandomInt(0, kRows - 1, random()), values);
    const OracleReport report = CompareWithOracle(
        Fp64Matmul(weights(), signature, a, kRows), weights().header(),
        signature, Multiply(signature, a));
    EXPECT_EQ(report.ToStatus(), absl::OkStatus())
        << NameOf(signature) << ", n k = " << n() << " " << k()
        << ", struck by " << values[0];
  }
}

TEST_P(SpecialValuesTest, LeaveOtherRowsAsTheyWere) {
  for (const MatmulSignature& signature : AllSignatures()) {
    if (!Supports(signature)) continue;
    const std::vector<uint8_t> calm =
        RandomMatrix(signature.a_type, kRows, k(), random());
    const int64_t row = RandomInt(0, kRows - 1, random());
    const std::vector<uint8_t> struck =
        Strike(signature, calm, row, RandomElement(Strikes(), random()));
    const std::vector<uint8_t> expected = Multiply(signature, calm);
    const std::vector<uint8_t> actual = Multiply(signature, struck);
    const int64_t row_bytes = n() * SizeOf(signature.c_type);
    for (int64_t other = 0; other < kRows; ++other) {
      if (other == row) continue;
      const auto begin = other * row_bytes;
      EXPECT_TRUE(std::equal(expected.begin() + begin,
                             expected.begin() + begin + row_bytes,
                             actual.begin() + begin))
          << NameOf(signature) << ": row " << other << " changed with row "
          << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Backends, SpecialValuesTest,
    testing::Combine(testing::ValuesIn(ConformanceBackends()),
                     testing::ValuesIn(AllWeightsRecipes())),
    BackendAndRecipeName);

}  // namespace
}  // namespace qgemm
