// SPDX-License-Identifier: Apache-2.0
//
// Properties of the reference backend alone; the conformance suite has the
// rest.

#include "kernels/reference/reference_backend.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "kernels/matrix/types.h"
#include "tests/support/random_weights.h"

namespace qgemm::reference {
namespace {

TEST(ReferenceBackendTest, RefusesOptionsBelowTheirRange) {
  ReferenceOptions no_rows;
  no_rows.limits.max_batch_rows = 0;
  EXPECT_EQ(CreateReferenceBackend(no_rows).status().code(),
            absl::StatusCode::kInvalidArgument);
  ReferenceOptions negative;
  negative.memory_bytes = -1;
  EXPECT_EQ(CreateReferenceBackend(negative).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A backend that holds `memory_bytes` of weights and as much staging.
std::unique_ptr<Backend> SmallBackend(int64_t memory_bytes) {
  ReferenceOptions options;
  options.memory_bytes = memory_bytes;
  return *CreateReferenceBackend(options);
}

TEST(ReferenceBackendTest, RefusesWeightsBeyondItsMemory) {
  RandomGenerator random(FreshSeed());
  const CanonicalWeights weights =
      RandomWeights(WeightsRecipeNamed("q4_0"), 8, 64, &random);
  const int64_t needed =
      SmallBackend(1)->EstimateResidentBytes(weights.header());
  const auto exact = SmallBackend(needed);
  const auto short_by_one = SmallBackend(needed - 1);
  EXPECT_EQ((*exact->NewBuilder())->Begin(weights.header()), absl::OkStatus());
  EXPECT_EQ((*short_by_one->NewBuilder())->Begin(weights.header()).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(ReferenceBackendTest, RefusesStagingBeyondItsMemory) {
  const auto backend = SmallBackend(100);
  EXPECT_TRUE(backend->AcquireStaging(100).ok());
  EXPECT_EQ(backend->AcquireStaging(101).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend->memory().staging_bytes, 0);
}

// Enqueues a batch, which must succeed, and waits for its completion.
void RunToEnd(Backend* backend, GemmBatch batch) {
  Mutex mutex;
  CondVar changed;
  bool done = false;
  const auto completion = [&](absl::Status status, const BatchTimings&,
                              GemmBatch) {
    EXPECT_EQ(status, absl::OkStatus());
    MutexLock lock(&mutex);
    done = true;
    changed.SignalAll();
  };
  ASSERT_EQ(backend->Enqueue(std::move(batch), completion), absl::OkStatus());
  MutexLock lock(&mutex);
  while (!done) changed.Wait(&mutex);
}

TEST(ReferenceBackendTest, ComputesAProductWorkedOutByHand) {
  const auto backend = SmallBackend(1 << 20);
  WeightsHeader header = WeightsRecipeNamed("ternary").header;
  header.n = 1;
  header.k = 3;
  header.group_size = 3;
  header.bias = {0.25f};
  std::vector<uint8_t> scale(4);
  StoreFloat(FloatType::kFloat32, 0.5f, scale.data());
  const std::vector<uint8_t> codes = {0, 1, 2};  // -1, 0, 1
  auto builder = *backend->NewBuilder();
  ASSERT_EQ(builder->Begin(header), absl::OkStatus());
  ASSERT_EQ(builder->WriteScales({0, 1, 0, 1, scale}), absl::OkStatus());
  ASSERT_EQ(builder->WriteCodes({0, 1, 0, 3, codes}), absl::OkStatus());
  std::shared_ptr<const ResidentWeights> resident = *builder->Finish();
  StagingLease a = *backend->AcquireStaging(12);
  StagingLease c = *backend->AcquireStaging(4);
  for (int i = 0; i < 3; ++i) {
    StoreFloat(FloatType::kFloat32, 1.0f + 2 * i, a.data() + 4 * i);
  }
  const MatmulSignature signature = {FloatType::kFloat32, FloatType::kFloat32};
  RunToEnd(backend.get(),
           {std::move(resident), signature, {{1, a.data(), c.data()}}});
  EXPECT_EQ(LoadFloat(FloatType::kFloat32, c.data()),
            (-1.0f + 5.0f) * 0.5f + 0.25f);
}

}  // namespace
}  // namespace qgemm::reference
