// SPDX-License-Identifier: Apache-2.0
//
// From upload bytes to results: what the encoders write and the decoders
// read multiplies as its canonical form does, however the bytes are cut.

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "kernels/matrix/fp64_oracle.h"
#include "tests/conformance/batch_run.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/encoded_weights.h"
#include "tests/support/random_matrix.h"

namespace qgemm {
namespace {

constexpr int64_t kRows = 3;

class UploadTest : public ConformanceTest,
                   public testing::WithParamInterface<
                       std::tuple<ConformanceBackend, EncodeRecipe>> {
 protected:
  const ConformanceBackend& tested() const override {
    return std::get<0>(GetParam());
  }

  EncodedWeights RandomUpload() {
    const EncodeRecipe& recipe = std::get<1>(GetParam());
    const int64_t n = RandomInt(1, 140, random());
    const int64_t k =
        RandomInt(1, 600 / recipe.k_multiple, random()) * recipe.k_multiple;
    return RandomEncodedWeights(recipe, n, k, random());
  }

  std::shared_ptr<const ResidentWeights> Upload(const EncodedWeights& encoded,
                                                int64_t piece_bytes) {
    absl::StatusOr<std::unique_ptr<WeightsBuilder>> builder =
        backend()->NewBuilder();
    CHECK(builder.ok()) << builder.status();
    CHECK_OK(DecodeInto(encoded, piece_bytes, builder->get()));
    auto resident = (*builder)->Finish();
    CHECK(resident.ok()) << resident.status();
    return *std::move(resident);
  }
};

TEST_P(UploadTest, MultipliesAsItsCanonicalForm) {
  const MatmulSignature signature = {FloatType::kFloat16, FloatType::kFloat32};
  const EncodedWeights encoded = RandomUpload();
  const CanonicalWeights canonical = Decode(encoded);
  const std::vector<uint8_t> a =
      RandomMatrix(signature.a_type, kRows, canonical.header().k, random());
  const BatchResults results = RunBatch(
      backend(),
      {Upload(encoded, TotalBytes(encoded.spec)), signature, {{kRows, a}}});
  const OracleReport report =
      CompareWithOracle(Fp64Matmul(canonical, signature, a, kRows),
                        canonical.header(), signature, results[0]);
  EXPECT_EQ(report.ToStatus(), absl::OkStatus());
}

TEST_P(UploadTest, GivesTheSameBitsHoweverItIsCut) {
  const MatmulSignature signature = {FloatType::kFloat16, FloatType::kFloat16};
  const EncodedWeights encoded = RandomUpload();
  const std::vector<uint8_t> a =
      RandomMatrix(signature.a_type, kRows, encoded.spec.k, random());
  const BatchResults whole = RunBatch(
      backend(),
      {Upload(encoded, TotalBytes(encoded.spec)), signature, {{kRows, a}}});
  for (const int64_t piece_bytes : {int64_t{7}, RandomInt(1, 999, random())}) {
    const BatchResults pieces = RunBatch(
        backend(), {Upload(encoded, piece_bytes), signature, {{kRows, a}}});
    EXPECT_TRUE(whole == pieces) << "pieces of " << piece_bytes << " bytes";
  }
}

TEST_P(UploadTest, HoldsTheBytesThatItsSpecTells) {
  const EncodedWeights encoded = RandomUpload();
  EXPECT_EQ(Upload(encoded, 4096)->resident_bytes(),
            backend()->EstimateResidentBytes(ShapeOf(encoded.spec)));
}

INSTANTIATE_TEST_SUITE_P(
    Backends, UploadTest,
    testing::Combine(testing::ValuesIn(ConformanceBackends()),
                     testing::ValuesIn(AllEncodeRecipes())),
    [](const auto& info) {
      return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
    });

}  // namespace
}  // namespace qgemm
