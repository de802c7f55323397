// SPDX-License-Identifier: Apache-2.0
//
// Enqueue and its completion: once each, on errors never, before the backend
// is gone always; staging that is aligned, separate and reused.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tests/conformance/batch_run.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/random_matrix.h"

namespace qgemm {
namespace {

constexpr MatmulSignature kSignature = {FloatType::kFloat16,
                                        FloatType::kFloat32};
constexpr int64_t kN = 5;
constexpr int64_t kK = 32;

class EnqueueTest : public PerBackendTest {
 protected:
  std::shared_ptr<const ResidentWeights> Load(const std::string& recipe) {
    return LoadWhole(
        backend(), RandomWeights(WeightsRecipeNamed(recipe), kN, kK, random()));
  }

  RequestRows Request(int64_t rows) {
    return {rows, RandomMatrix(kSignature.a_type, rows, kK, random())};
  }

  StagingLease Acquire(int64_t size_bytes) {
    absl::StatusOr<StagingLease> lease = backend()->AcquireStaging(size_bytes);
    CHECK(lease.ok()) << lease.status();
    return *std::move(lease);
  }
};

TEST_P(EnqueueTest, CompletesEachBatchOnce) {
  constexpr int kThreads = 4;
  constexpr int kBatches = 100;
  const auto weights = Load("q4_0");
  std::vector<std::unique_ptr<BatchRun>> runs;
  for (int i = 0; i < kBatches; ++i) {
    runs.push_back(std::make_unique<BatchRun>(
        backend(), BatchSpec{weights, kSignature, {Request(1 + i % 3)}}));
  }
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&runs, thread] {
      for (int i = thread; i < kBatches; i += kThreads) {
        CHECK_OK(runs[i]->Enqueue());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& run : runs) run->Wait();
  for (const auto& run : runs) EXPECT_EQ(run->completions(), 1);
}

// One may wait for its batch, however many others run; results do not tell.
TEST_P(EnqueueTest, CompletesBatchesThatTheirCallersMayWaitFor) {
  constexpr int kThreads = 3;
  constexpr int kBatches = 150;
  BatchSpec spec = {Load("q4_0"), kSignature, {Request(1)}};
  const BatchResults expected = RunBatch(backend(), spec);
  spec.hint = ExecutionHint::kMayRunInline;
  EXPECT_TRUE(RunBatch(backend(), spec) == expected) << "alone";
  std::vector<std::unique_ptr<BatchRun>> runs;
  for (int i = 0; i < kBatches; ++i) {
    spec.hint =
        i % 3 != 0 ? ExecutionHint::kMayRunInline : ExecutionHint::kAsync;
    runs.push_back(std::make_unique<BatchRun>(backend(), spec));
  }
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&runs, thread] {
      for (int i = thread; i < kBatches; i += kThreads) {
        CHECK_OK(runs[i]->Enqueue());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& run : runs) EXPECT_TRUE(run->Wait() == expected);
  for (const auto& run : runs) EXPECT_EQ(run->completions(), 1);
}

TEST_P(EnqueueTest, TakesTheMostRowsThatItsLimitsName) {
  const int64_t rows = backend()->limits().max_batch_rows;
  const BatchResults results =
      RunBatch(backend(), {Load("q4_0"), kSignature, {Request(rows)}});
  EXPECT_EQ(static_cast<int64_t>(results[0].size()), rows * kN * 4);
}

// The batch must be refused with `code`. That its completion never runs is
// seen after a later batch has run.
void ExpectRefused(BatchRun* run, absl::StatusCode code) {
  const absl::Status status = run->Enqueue();
  EXPECT_EQ(status.code(), code) << status;
}

TEST_P(EnqueueTest, RefusesABatchWithoutRows) {
  const auto weights = Load("q4_0");
  BatchRun run(backend(), {weights, kSignature, {}});
  ExpectRefused(&run, absl::StatusCode::kInvalidArgument);
  RunBatch(backend(), {weights, kSignature, {Request(1)}});
  EXPECT_EQ(run.completions(), 0);
}

TEST_P(EnqueueTest, RefusesMoreRowsThanItsLimitsName) {
  const int64_t rows = backend()->limits().max_batch_rows;
  const auto weights = Load("q4_0");
  BatchRun run(backend(), {weights, kSignature, {Request(1), Request(rows)}});
  ExpectRefused(&run, absl::StatusCode::kInvalidArgument);
  RunBatch(backend(), {weights, kSignature, {Request(1)}});
  EXPECT_EQ(run.completions(), 0);
}

TEST_P(EnqueueTest, RefusesAModeThatTheLayerDoesNotOffer) {
  const MatmulSignature integer_dots = {FloatType::kFloat16,
                                        FloatType::kFloat32, ComputeMode::kA8};
  const auto weights = Load("dense_fp16");
  BatchRun run(backend(), {weights, integer_dots, {Request(1)}});
  ExpectRefused(&run, absl::StatusCode::kUnimplemented);
  EXPECT_EQ(backend()->CheckSupport(*weights, integer_dots).code(),
            absl::StatusCode::kUnimplemented);
  RunBatch(backend(), {weights, kSignature, {Request(1)}});
  EXPECT_EQ(run.completions(), 0);
}

TEST_P(EnqueueTest, KeepsWeightsAliveUntilTheBatchIsDone) {
  const int64_t before = backend()->memory().weights_bytes;
  BatchSpec spec = {Load("ternary_bias"), kSignature, {Request(3)}};
  const std::weak_ptr<const ResidentWeights> watched = spec.weights;
  const BatchResults expected = RunBatch(backend(), spec);
  {
    BatchRun run(backend(), std::move(spec));
    ASSERT_EQ(run.Enqueue(), absl::OkStatus());
    EXPECT_TRUE(run.Wait() == expected);
  }
  // The completion's batch may be destroyed a moment after Wait returns.
  while (!watched.expired()) std::this_thread::yield();
  while (backend()->memory().weights_bytes != before) {
    std::this_thread::yield();
  }
}

TEST_P(EnqueueTest, DestroyingTheBackendWaitsForEveryBatch) {
  constexpr int kBatches = 30;
  constexpr int64_t kRows = 8;
  std::atomic<int> completions{0};
  auto weights = Load("int4_g32_fp16");
  for (int i = 0; i < kBatches; ++i) {
    const RequestRows request = Request(kRows);
    StagingLease a = Acquire(request.a.size());
    StagingLease c = Acquire(kRows * kN * 4);
    std::copy(request.a.begin(), request.a.end(), a.data());
    GemmBatch batch = {weights, kSignature, {{kRows, a.data(), c.data()}}};
    ASSERT_EQ(
        backend()->Enqueue(
            std::move(batch),
            [&completions, a = std::move(a), c = std::move(c)](
                absl::Status status, const BatchTimings&, GemmBatch) mutable {
              EXPECT_EQ(status, absl::OkStatus());
              a = StagingLease();
              c = StagingLease();
              ++completions;
            }),
        absl::OkStatus());
  }
  weights.reset();
  DestroyBackend();
  EXPECT_EQ(completions.load(), kBatches);
}

// Enqueues its batch again from each completion, as a scheduler does.
class Relay {
 public:
  Relay(Backend* backend, GemmBatch batch, int left)
      : backend_(backend), left_(left) {
    Next(std::move(batch));
  }

  void WaitUntilDone() {
    MutexLock lock(&mutex_);
    while (left_ > 0) changed_.Wait(&mutex_);
  }

 private:
  void Next(GemmBatch batch) {
    CHECK_OK(backend_->Enqueue(
        std::move(batch),
        [this](absl::Status status, const BatchTimings&, GemmBatch returned) {
          CHECK_OK(status);
          if (Finished()) return;
          Next(std::move(returned));
        }));
  }
  bool Finished() {
    MutexLock lock(&mutex_);
    --left_;
    changed_.SignalAll();
    return left_ <= 0;
  }

  Backend* const backend_;
  Mutex mutex_;
  CondVar changed_;
  int left_ ABSL_GUARDED_BY(mutex_);
};

TEST_P(EnqueueTest, ACompletionMayEnqueueTheNextBatch) {
  constexpr int kRounds = 20;
  const StagingLease a = Acquire(kK * 2);
  const StagingLease c = Acquire(kN * 4);
  const RequestRows request = Request(1);
  std::copy(request.a.begin(), request.a.end(), a.data());
  Relay relay(backend(), {Load("kbit4"), kSignature, {{1, a.data(), c.data()}}},
              kRounds);
  relay.WaitUntilDone();
}

TEST_P(EnqueueTest, StagingIsAlignedAndLargeEnough) {
  for (const int64_t size_bytes : {1, 63, 64, 4097, 1 << 20}) {
    const StagingLease lease = Acquire(size_bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(lease.data()) % 64, 0);
    EXPECT_GE(lease.size_bytes(), size_bytes);
  }
}

TEST_P(EnqueueTest, StagingLeasesDoNotOverlap) {
  std::vector<StagingLease> leases;
  for (int i = 0; i < 20; ++i) {
    leases.push_back(Acquire(1 + 100 * i));
    std::fill_n(leases[i].data(), 1 + 100 * i, static_cast<uint8_t>(i));
  }
  for (int i = 0; i < 20; ++i) {
    for (int byte = 0; byte < 1 + 100 * i; ++byte) {
      ASSERT_EQ(leases[i].data()[byte], i);
    }
  }
}

TEST_P(EnqueueTest, StagingDoesNotGrowWithReuse) {
  constexpr int64_t kSizeBytes = 100'000;
  {
    const StagingLease first = Acquire(kSizeBytes);
    EXPECT_GE(backend()->memory().staging_bytes, kSizeBytes);
  }
  const int64_t pooled = backend()->memory().staging_bytes;
  for (int i = 0; i < 50; ++i) Acquire(kSizeBytes);
  EXPECT_EQ(backend()->memory().staging_bytes, pooled);
}

// Memory of a caller's, as lanes have it: the same bits, nothing beside C.
TEST_P(EnqueueTest, ComputesInMemoryThatItLeases) {
  constexpr int64_t kPage = 4096;
  constexpr int64_t kBytes = 16 * kPage;
  const std::unique_ptr<uint8_t, void (*)(void*)> memory(
      static_cast<uint8_t*>(std::aligned_alloc(kPage, kBytes)), std::free);
  const absl::StatusOr<StagingLease> lease =
      backend()->LeaseHostMemory(memory.get(), kBytes);
  if (backend()->describe().name == "reference") {
    EXPECT_TRUE(absl::IsUnimplemented(lease.status())) << lease.status();
    return;
  }
  ASSERT_TRUE(lease.ok()) << lease.status();
  ASSERT_EQ(lease->data(), memory.get());
  const auto weights = Load("kbit4");
  for (const int64_t rows : {1, 3, 70}) {
    const RequestRows request = Request(rows);
    const BatchResults expected =
        RunBatch(backend(), {weights, kSignature, {request}});
    std::fill_n(lease->data(), kBytes, uint8_t{0xa5});
    std::copy(request.a.begin(), request.a.end(), lease->data());
    uint8_t* const c = lease->data() + kBytes / 2;
    Relay(backend(), {weights, kSignature, {{rows, lease->data(), c}}}, 1)
        .WaitUntilDone();
    uint8_t* const end = c + expected[0].size();
    EXPECT_EQ(std::vector<uint8_t>(c, end), expected[0]);
    EXPECT_EQ(c[-1], 0xa5);
    EXPECT_EQ(*end, 0xa5);
  }
}

TEST_P(EnqueueTest, DescribesItself) {
  const BackendDescription description = backend()->describe();
  EXPECT_FALSE(description.name.empty());
  EXPECT_FALSE(description.device.empty());
  EXPECT_GE(description.parallelism, 1);
  EXPECT_GT(backend()->memory().total_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, EnqueueTest,
                         testing::ValuesIn(ConformanceBackends()), BackendName);

}  // namespace
}  // namespace qgemm
