// SPDX-License-Identifier: Apache-2.0
//
// Time of a layer from its last byte to the first result: printed and recorded,
// for a person to judge. The test asserts only that the result is right.

#include <iostream>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/matrix/fp64_oracle.h"
#include "tests/kernels/cuda/backend_test.h"

namespace qgemm::cuda {
namespace {

// The gate or up matrix of a model of 70 billion weights.
constexpr int64_t kN = 28672;
constexpr int64_t kK = 8192;
// Rows of a panel. All panels are the same, to be made in little time.
constexpr int64_t kPanelRows = 256;

class UploadTimeTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    backend_ = NewBackend();
  }

  void Report(const std::string& what, absl::Duration time) {
    const int64_t micros = absl::ToInt64Microseconds(time);
    std::cout << what << ": " << micros << " us" << std::endl;
    RecordProperty(what, std::to_string(micros));
  }

  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<Backend> backend_;
};

// The panel's scales and codes, as rows from `row` on.
absl::Status WritePanel(const CanonicalWeights& panel, int64_t row,
                        WeightsBuilder* builder) {
  const int64_t groups = panel.header().groups_per_row();
  const absl::Status scales =
      builder->WriteScales({row, kPanelRows, 0, groups, panel.scales()});
  if (!scales.ok()) return scales;
  return builder->WriteCodes({row, kPanelRows, 0, kK, panel.codes()});
}

// Each panel's columns of one row of C are the product with that panel.
void ExpectProducts(const CanonicalWeights& panel, const RepeatedBatch& batch) {
  const MatmulSignature signature;
  const OracleProduct oracle = Fp64Matmul(
      panel, signature, absl::MakeConstSpan(batch.a(), kK * 2), /*m=*/1);
  constexpr int64_t kPanelBytes = kPanelRows * 2;
  for (int64_t i = 0; i < kN / kPanelRows; ++i) {
    const auto c =
        absl::MakeConstSpan(batch.c() + i * kPanelBytes, kPanelBytes);
    const OracleReport report =
        CompareWithOracle(oracle, panel.header(), signature, c);
    ASSERT_EQ(report.ToStatus(), absl::OkStatus()) << "panel " << i;
  }
}

TEST_F(UploadTimeTest, FromTheLastByteToReady) {
  const WeightsRecipe recipe = WeightsRecipeNamed("kbit4");
  const CanonicalWeights panel =
      RandomWeights(recipe, kPanelRows, kK, &random_);
  WeightsHeader header = panel.header();
  header.n = kN;
  // Twice: the second finds the pages locked.
  for (const char* const upload : {"first", "second"}) {
    const absl::Time start = absl::Now();
    const auto builder = NewBuilder(backend_.get());
    ASSERT_EQ(builder->Begin(header), absl::OkStatus());
    ASSERT_EQ(builder->SetTensorScale(panel.tensor_scale()), absl::OkStatus());
    absl::Time last_byte = start;
    for (int64_t row = 0; row < kN; row += kPanelRows) {
      last_byte = absl::Now();
      ASSERT_EQ(WritePanel(panel, row, builder.get()), absl::OkStatus());
    }
    const auto weights = builder->Finish();
    const absl::Time ready = absl::Now();
    ASSERT_TRUE(weights.ok()) << weights.status();
    RepeatedBatch batch(backend_.get(), *weights, 1, &random_);
    const absl::Time leased = absl::Now();
    ASSERT_EQ(batch.Run(1), absl::OkStatus());
    Report(std::string(upload) + "_result_us", absl::Now() - leased);
    Report(std::string(upload) + "_last_byte_to_ready_us", ready - last_byte);
    Report(std::string(upload) + "_upload_us", ready - start);
    ExpectProducts(panel, batch);
  }
}

TEST_F(UploadTimeTest, FirstResultsOfDenseLayers) {
  for (const char* const recipe : {"dense_fp16", "dense_bf16"}) {
    const auto weights = LoadWhole(
        backend_.get(),
        RandomWeights(WeightsRecipeNamed(recipe), 1024, 1024, &random_));
    const absl::Status offered =
        backend_->CheckSupport(*weights, MatmulSignature());
    if (!offered.ok()) GTEST_SKIP() << offered;
    for (const int64_t rows : {1, 300}) {
      RepeatedBatch batch(backend_.get(), weights, rows, &random_);
      for (const char* const result : {"first", "second"}) {
        const absl::Time start = absl::Now();
        ASSERT_EQ(batch.Run(1), absl::OkStatus());
        Report(std::string(recipe) + "_m" + std::to_string(rows) + "_" +
                   result + "_result_us",
               absl::Now() - start);
      }
    }
  }
}

}  // namespace
}  // namespace qgemm::cuda
