// SPDX-License-Identifier: Apache-2.0
//
// Programs through scheduler, dispatcher and an asynchronous backend: requests
// of one program share launches, large ones run in chunks, and every request
// gets its own rows, beside products with the same weights.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/programs/checked_program.h"
#include "kernels/reference/program_interpreter.h"
#include "server/scheduling/batch_dispatcher.h"
#include "server/scheduling/batch_scheduler.h"
#include "tests/conformance/batch_run.h"
#include "tests/support/fake_async_backend.h"
#include "tests/support/fake_clock.h"
#include "tests/support/program_layers.h"
#include "tests/support/random_matrix.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr LayerShape kShape = {24, 16, 8, 4, 40};

// A worked program that is ready to run, and what it is compared with.
struct ReadyProgram {
  LoadedProgram loaded;
  std::shared_ptr<const CheckedProgram> checked;
  std::shared_ptr<const CompiledProgram> compiled;

  std::vector<uint8_t> RandomInputs(int64_t m, RandomGenerator* random) const {
    std::vector<uint8_t> inputs;
    for (const ProgramInput& input : checked->program().inputs) {
      const std::vector<uint8_t> rows =
          RandomMatrix(FloatTypeOf(input.type), m, input.width, random);
      inputs.insert(inputs.end(), rows.begin(), rows.end());
    }
    return inputs;
  }

  std::vector<uint8_t> Expected(const std::vector<uint8_t>& inputs,
                                int64_t m) const {
    return reference::OutputsOf(
        *checked,
        reference::InterpretProgram(*checked, loaded.In(*checked), inputs, m));
  }
};

// Answers by request. Thread-safe.
class Answers {
 public:
  AdmittedRequest::Done Recorder(size_t number) {
    return
        [this, number](const absl::Status& status, const GemmTimings& timings,
                       std::unique_ptr<AdmittedRequest> request) {
          MutexLock lock(&mutex_);
          if (!status.ok()) return;
          if (!timings.ops.empty()) timed_ops_[number] = timings.ops.size();
          const uint8_t* const c = request->c.data();
          values_.resize(std::max(values_.size(), number + 1));
          values_[number].assign(c, c + request->c.size_bytes());
        };
  }

  std::vector<std::vector<uint8_t>> Take() {
    MutexLock lock(&mutex_);
    return std::move(values_);
  }

  // The number of times of ops, by the requests that have any.
  std::map<size_t, size_t> timed_ops() {
    MutexLock lock(&mutex_);
    return timed_ops_;
  }

 private:
  Mutex mutex_;
  std::map<size_t, size_t> timed_ops_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<uint8_t>> values_ ABSL_GUARDED_BY(mutex_);
};

class ScheduledProgramsTest : public testing::Test {
 protected:
  ReadyProgram Ready(const WorkedProgram& worked) {
    ReadyProgram ready;
    ready.loaded =
        RandomWeightsOf(worked, WeightsRecipeNamed("dense_fp16"), &random_);
    absl::StatusOr<CheckedProgram> checked =
        CheckProgram(worked.program, ready.loaded.shapes);
    CHECK_OK(checked.status());
    ready.checked = std::make_shared<CheckedProgram>(*std::move(checked));
    WeightsOfProgram weights;
    for (const CanonicalWeights* const layer :
         ready.loaded.In(*ready.checked)) {
      weights.push_back(LoadWhole(&backend_, *layer));
    }
    auto compiled =
        backend_.programs()->Compile(ready.checked, std::move(weights));
    CHECK_OK(compiled.status());
    ready.compiled = *std::move(compiled);
    return ready;
  }

  // Operands of so many bytes; the expected answer is appended.
  std::unique_ptr<AdmittedRequest> Request(const std::vector<uint8_t>& a,
                                           std::vector<uint8_t> expected) {
    auto request = std::make_unique<AdmittedRequest>();
    request->a = backend_.AcquireStaging(a.size()).value();
    std::memcpy(request->a.data(), a.data(), a.size());
    request->c = backend_.AcquireStaging(expected.size()).value();
    request->arrival = clock_.Now();
    request->client = std::string(RandomInt(0, 1, &random_), 'c');
    request->done = answers_.Recorder(expected_.size());
    expected_.push_back(std::move(expected));
    return request;
  }

  std::unique_ptr<AdmittedRequest> Run(const ReadyProgram& program, int64_t m) {
    const std::vector<uint8_t> inputs = program.RandomInputs(m, &random_);
    auto request = Request(inputs, program.Expected(inputs, m));
    request->program = program.compiled;
    request->m = m;
    return request;
  }

  // A product with the program's first weights.
  std::unique_ptr<AdmittedRequest> Gemm(const ReadyProgram& program,
                                        int64_t m) {
    const CanonicalWeights& weights =
        *program.loaded.In(*program.checked).front();
    MatmulSignature signature;
    signature.a_type = signature.c_type = FloatType::kFloat32;
    const std::vector<uint8_t> a =
        RandomMatrix(signature.a_type, m, weights.header().k, &random_);
    const std::vector<double> exact =
        Fp64Matmul(weights, signature, a, m).values;
    std::vector<uint8_t> c(exact.size() * sizeof(float));
    for (size_t i = 0; i < exact.size(); ++i) {
      StoreFloat(signature.c_type, static_cast<float>(exact[i]),
                 &c[i * sizeof(float)]);
    }
    auto request = Request(a, std::move(c));
    request->weights = program.compiled->weights().front();
    request->signature = signature;
    request->m = m;
    return request;
  }

  // A drained scheduler's requests may still be completing.
  std::vector<std::vector<uint8_t>> TakeAnswers() {
    dispatcher_.WaitForCompletions();
    return answers_.Take();
  }

  RandomGenerator random_{FreshSeed()};
  FakeClock clock_;
  ServerMetrics metrics_;
  Answers answers_;
  std::vector<std::vector<uint8_t>> expected_;
  FakeAsyncBackend backend_;
  BatchDispatcher dispatcher_{&backend_, &clock_, &metrics_};
};

TEST_F(ScheduledProgramsTest, EveryRequestGetsItsOwnRows) {
  const ReadyProgram layer = Ready(LlamaLayer(kShape, LayerTypes()));
  const ReadyProgram ops = Ready(EveryOp());
  SchedulerOptions options;
  options.batching.max_requests = 8;
  options.batching.chunks.max_rows = 32;
  {
    BatchScheduler scheduler(options, &dispatcher_, &clock_, &metrics_);
    for (int i = 0; i < 60; ++i) {
      const int64_t m = RandomInt(0, 9, &random_) == 0
                            ? RandomInt(65, 150, &random_)
                            : RandomInt(1, 9, &random_);
      switch (RandomInt(0, 2, &random_)) {
        case 0:
          scheduler.Enqueue(Run(layer, m));
          break;
        case 1:
          scheduler.Enqueue(Run(ops, m));
          break;
        default:
          scheduler.Enqueue(Gemm(layer, m));
      }
    }
  }
  EXPECT_EQ(TakeAnswers(), expected_);
  EXPECT_EQ(backend_.leases(), 0);
}

TEST_F(ScheduledProgramsTest, RequestsOfOneProgramShareALaunch) {
  const ReadyProgram ops = Ready(EveryOp());
  SchedulerOptions options;
  options.batching.max_requests = 8;
  options.max_launches_in_flight = 1;
  BatchScheduler scheduler(options, &dispatcher_, &clock_, &metrics_);
  backend_.Hold();
  for (const int64_t m : {1, 2, 3, 4}) scheduler.Enqueue(Run(ops, m));
  backend_.ReleaseAll();
  backend_.WaitForCompleted(2);
  EXPECT_EQ(backend_.enqueued_rows(), (std::vector<int64_t>{1, 9}));
  scheduler.Drain(absl::InfiniteFuture());
  EXPECT_EQ(TakeAnswers(), expected_);
}

TEST_F(ScheduledProgramsTest, RunsWithTimesOfOpsShareLaunchesOfTheirOwn) {
  const ReadyProgram ops = Ready(EveryOp());
  SchedulerOptions options;
  options.batching.max_requests = 8;
  options.batching.chunks.max_rows = 32;
  options.max_launches_in_flight = 1;
  BatchScheduler scheduler(options, &dispatcher_, &clock_, &metrics_);
  backend_.Hold();
  for (const int64_t m : {1, 2, 3, 4, 5, 70}) {
    auto request = Run(ops, m);
    request->time_ops = m % 2 == 0;
    scheduler.Enqueue(std::move(request));
  }
  backend_.ReleaseAll();
  scheduler.Drain(absl::InfiniteFuture());
  EXPECT_EQ(TakeAnswers(), expected_);
  EXPECT_THAT(backend_.enqueued_rows(),
              UnorderedElementsAre(1, 2 + 4, 3 + 5, 32, 32, 6));
  const size_t count = ops.checked->ops().size();
  EXPECT_THAT(answers_.timed_ops(),
              ElementsAre(Pair(1, count), Pair(3, count), Pair(5, count)));
}

TEST_F(ScheduledProgramsTest, LargeRequestRunsInChunks) {
  const ReadyProgram ops = Ready(EveryOp());
  SchedulerOptions options;
  options.batching.chunks.max_rows = 32;
  {
    BatchScheduler scheduler(options, &dispatcher_, &clock_, &metrics_);
    scheduler.Enqueue(Run(ops, 100));
  }
  EXPECT_EQ(backend_.enqueued_rows(), (std::vector<int64_t>{32, 32, 32, 4}));
  EXPECT_EQ(TakeAnswers(), expected_);
}

TEST_F(ScheduledProgramsTest, LaunchIsBoundedByTheWorkOfAllOps) {
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 1000);
  const ValueNumber y = draft.Act(x, Activation::kRelu);
  const ReadyProgram wide = Ready({"wide", draft.Finish({y}), {}});
  ASSERT_GT(wide.compiled->row_multiply_adds(), 1000);
  SchedulerOptions options;
  options.batching.max_multiply_adds = 4 * wide.compiled->row_multiply_adds();
  {
    BatchScheduler scheduler(options, &dispatcher_, &clock_, &metrics_);
    scheduler.Enqueue(Run(wide, 10));
  }
  EXPECT_EQ(backend_.enqueued_rows(), (std::vector<int64_t>{4, 4, 2}));
  EXPECT_EQ(TakeAnswers(), expected_);
}

TEST_F(ScheduledProgramsTest, ProgramIsLetGoWithItsLastRequest) {
  ReadyProgram ops = Ready(EveryOp());
  const std::weak_ptr<const CompiledProgram> watched = ops.compiled;
  BatchScheduler scheduler(SchedulerOptions(), &dispatcher_, &clock_,
                           &metrics_);
  backend_.Hold();
  scheduler.Enqueue(Run(ops, 1));
  ops.compiled.reset();
  EXPECT_FALSE(watched.expired());
  backend_.ReleaseAll();
  scheduler.Drain(absl::InfiniteFuture());
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(TakeAnswers(), expected_);
}

}  // namespace
}  // namespace qgemm
