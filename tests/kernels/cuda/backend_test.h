// SPDX-License-Identifier: Apache-2.0
//
// The fixture of tests of the whole CUDA backend, and batches that run again
// and again without taking memory of their own.

#ifndef QGEMM_TESTS_KERNELS_CUDA_BACKEND_TEST_H_
#define QGEMM_TESTS_KERNELS_CUDA_BACKEND_TEST_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/mutex.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/programs/program_runner.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/panel_writer.h"
#include "tests/support/program_layers.h"
#include "tests/support/random_matrix.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {

// Aborts where the backend refuses.
inline std::unique_ptr<Backend> NewBackend() {
  auto backend = CreateCudaBackend(CudaOptions());
  CHECK(backend.ok()) << backend.status();
  return *std::move(backend);
}

inline std::unique_ptr<WeightsBuilder> NewBuilder(Backend* backend) {
  auto builder = backend->NewBuilder();
  CHECK(builder.ok()) << builder.status();
  return *std::move(builder);
}

inline std::shared_ptr<const ResidentWeights> LoadWhole(
    Backend* backend, const CanonicalWeights& weights) {
  const std::unique_ptr<WeightsBuilder> builder = NewBuilder(backend);
  CHECK_OK(WriteWhole(weights, builder.get()));
  auto resident = builder->Finish();
  CHECK(resident.ok()) << resident.status();
  return *std::move(resident);
}

// A small layer of a Llama, of random weights.
inline std::shared_ptr<const CompiledProgram> CompileLayer(
    Backend* backend, RandomGenerator* random) {
  const WorkedProgram worked =
      LlamaLayer({512, 512, 128, 64, 768}, {NumberType::kBFloat16});
  const LoadedProgram loaded =
      RandomWeightsOf(worked, WeightsRecipeNamed("kbit4"), random);
  auto checked = CheckProgram(worked.program, loaded.shapes);
  CHECK(checked.ok()) << checked.status();
  WeightsOfProgram weights;
  for (const CanonicalWeights* layer : loaded.In(*checked)) {
    weights.push_back(LoadWhole(backend, *layer));
  }
  auto program = backend->programs()->Compile(
      std::make_shared<const CheckedProgram>(*std::move(checked)), weights);
  CHECK(program.ok()) << program.status();
  return *std::move(program);
}

// One batch, with leases of its own, that is enqueued again from its
// completion. Used by one thread, but for the completions.
class RepeatedBatch {
 public:
  RepeatedBatch(Backend* backend,
                std::shared_ptr<const ResidentWeights> weights, int64_t rows,
                RandomGenerator* random)
      : backend_(backend) {
    const MatmulSignature signature;
    a_bytes_ = rows * weights->k() * SizeOf(signature.a_type);
    const int64_t c_bytes = rows * weights->n() * SizeOf(signature.c_type);
    const auto a = RandomMatrix(signature.a_type, rows, weights->k(), random);
    a_ = Acquire(a_bytes_);
    c_ = Acquire(c_bytes);
    std::copy(a.begin(), a.end(), a_.data());
    batch_ = {std::move(weights), signature, {{rows, a_.data(), c_.data()}}};
  }

  // Enqueues the batch `times` times, each after the one before it.
  void Start(int times) {
    left_ = times;
    Enqueue(std::move(batch_));
  }

  // The first error, once all are done.
  absl::Status Wait() {
    MutexLock lock(&mutex_);
    while (!done_) changed_.Wait(&mutex_);
    done_ = false;
    return status_;
  }

  absl::Status Run(int times) {
    Start(times);
    return Wait();
  }

  const uint8_t* a() const { return a_.data(); }
  const uint8_t* c() const { return c_.data(); }

 private:
  StagingLease Acquire(int64_t size_bytes) {
    absl::StatusOr<StagingLease> lease = backend_->AcquireStaging(size_bytes);
    CHECK(lease.ok()) << lease.status();
    return *std::move(lease);
  }

  void Enqueue(GemmBatch batch) {
    const absl::Status status = backend_->Enqueue(
        std::move(batch),
        [this](absl::Status result, const BatchTimings&, GemmBatch returned) {
          Complete(std::move(result), std::move(returned));
        });
    if (!status.ok()) End(status);
  }

  void Complete(absl::Status status, GemmBatch batch) {
    // As a request does: a lease from the pool, and back.
    Acquire(a_bytes_);
    if (!status.ok() || --left_ == 0) {
      batch_ = std::move(batch);
      End(std::move(status));
      return;
    }
    Enqueue(std::move(batch));
  }

  void End(absl::Status status) {
    MutexLock lock(&mutex_);
    status_ = std::move(status);
    done_ = true;
    changed_.SignalAll();
  }

  Backend* const backend_;
  int64_t a_bytes_ = 0;
  StagingLease a_;
  StagingLease c_;
  GemmBatch batch_;
  int left_ = 0;
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// Batches of one small layer, whose completions are counted.
class CountedBatchTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    backend_ = NewBackend();
    weights_ = LoadWhole(
        backend_.get(),
        RandomWeights(WeightsRecipeNamed("kbit4"), 128, 256, &random_));
    a_ = std::make_shared<StagingLease>(*backend_->AcquireStaging(kBytes));
    c_ = std::make_shared<StagingLease>(*backend_->AcquireStaging(kBytes));
  }

  absl::Status Enqueue(int64_t rows, ExecutionHint hint) {
    GemmBatch batch = {weights_, {}, {{rows, a_->data(), c_->data()}}};
    batch.hint = hint;
    return Enqueue(std::move(batch));
  }

  absl::Status Enqueue(GemmBatch batch) {
    return backend_->Enqueue(
        std::move(batch),
        [this, a = a_, c = c_](const absl::Status&, const BatchTimings&,
                               GemmBatch) {
          completer_ = std::this_thread::get_id();
          ++completed_;
        });
  }

  // Lets kernels that hang end.
  void EndBackend() {
    a_.reset();
    c_.reset();
    weights_.reset();
    backend_.reset();
  }

  static constexpr int64_t kBytes = 1 << 20;
  RandomGenerator random_{FreshSeed()};
  std::thread::id completer_;  // of the last batch
  std::atomic<int> completed_{0};
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const ResidentWeights> weights_;
  std::shared_ptr<StagingLease> a_;
  std::shared_ptr<StagingLease> c_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_BACKEND_TEST_H_
