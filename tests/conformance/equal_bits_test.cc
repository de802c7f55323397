// SPDX-License-Identifier: Apache-2.0
//
// The same request gives the same bits: again, alone or at any place in any
// batch, under load, and whatever C held before.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/batch_run.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/random_matrix.h"

namespace qgemm {
namespace {

constexpr int64_t kRequestRows[] = {1, 3, 16, 2, 65, 8, 1, 130, 33, 7};

class EqualBitsTest : public PerRecipeTest {
 protected:
  // One layer, one signature that it supports, requests of several sizes.
  void Prepare(const MatmulSignature& signature) {
    const int64_t n = RandomInt(1, 100, random());
    const int64_t k = RandomLegalK(recipe(), 400, random());
    weights_ = LoadWhole(backend(), RandomWeights(recipe(), n, k, random()));
    signature_ = signature;
    requests_.clear();
    alone_.clear();
    for (const int64_t rows : kRequestRows) {
      requests_.push_back(
          {rows, RandomMatrix(signature.a_type, rows, k, random())});
    }
  }

  // A signature of each mode that the layer supports, types at random.
  std::vector<MatmulSignature> SomeSignatures() {
    const auto probe =
        LoadWhole(backend(), RandomWeights(recipe(), 1, 128, random()));
    std::vector<MatmulSignature> signatures = AllSignatures();
    std::shuffle(signatures.begin(), signatures.end(), *random());
    std::vector<MatmulSignature> chosen;
    for (const ComputeMode mode :
         {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
      for (const MatmulSignature& signature : signatures) {
        if (signature.mode != mode) continue;
        if (!backend()->CheckSupport(*probe, signature).ok()) continue;
        chosen.push_back(signature);
        break;
      }
    }
    return chosen;
  }

  BatchSpec Spec(const std::vector<int64_t>& chosen) const {
    BatchSpec spec = {weights_, signature_, {}};
    for (const int64_t i : chosen) spec.requests.push_back(requests_[i]);
    return spec;
  }

  // C of each request, run by itself.
  const BatchResults& Alone() {
    for (size_t i = alone_.size(); i < requests_.size(); ++i) {
      alone_.push_back(RunBatch(backend(), Spec({static_cast<int64_t>(i)}))[0]);
    }
    return alone_;
  }

  // Some of the requests, each at most once, in random order.
  std::vector<int64_t> RandomChoice() {
    std::vector<int64_t> chosen(requests_.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    std::shuffle(chosen.begin(), chosen.end(), *random());
    chosen.resize(RandomInt(1, chosen.size(), random()));
    return chosen;
  }

  void ExpectAsAlone(const BatchResults& results,
                     const std::vector<int64_t>& chosen) {
    ASSERT_EQ(results.size(), chosen.size());
    for (size_t i = 0; i < chosen.size(); ++i) {
      EXPECT_TRUE(results[i] == Alone()[chosen[i]])
          << NameOf(signature_) << ": " << requests_[chosen[i]].rows
          << " rows at place " << i << " of " << chosen.size()
          << " differ from the same rows alone";
    }
  }

 private:
  std::shared_ptr<const ResidentWeights> weights_;
  MatmulSignature signature_;
  std::vector<RequestRows> requests_;
  BatchResults alone_;
};

TEST_P(EqualBitsTest, OnRepeatOverAnyFormerContentOfC) {
  for (const MatmulSignature& signature : SomeSignatures()) {
    Prepare(signature);
    std::vector<int64_t> all(std::size(kRequestRows));
    std::iota(all.begin(), all.end(), 0);
    for (const int64_t poison : {0x00, 0x5a, 0xff}) {
      BatchSpec spec = Spec(all);
      spec.poison = static_cast<uint8_t>(poison);
      ExpectAsAlone(RunBatch(backend(), std::move(spec)), all);
    }
  }
}

TEST_P(EqualBitsTest, AtAnyPlaceInAnyBatch) {
  for (const MatmulSignature& signature : SomeSignatures()) {
    Prepare(signature);
    for (int repeat = 0; repeat < 6; ++repeat) {
      const std::vector<int64_t> chosen = RandomChoice();
      ExpectAsAlone(RunBatch(backend(), Spec(chosen)), chosen);
    }
  }
}

TEST_P(EqualBitsTest, InConcurrentBatches) {
  constexpr int kThreads = 3;
  constexpr int kBatchesPerThread = 4;
  const std::vector<MatmulSignature> signatures = SomeSignatures();
  Prepare(RandomElement(signatures, random()));
  Alone();
  std::vector<std::vector<int64_t>> choices;
  std::vector<std::unique_ptr<BatchRun>> runs;
  for (int i = 0; i < kThreads * kBatchesPerThread; ++i) {
    choices.push_back(RandomChoice());
    runs.push_back(std::make_unique<BatchRun>(backend(), Spec(choices[i])));
  }
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&runs, thread] {
      for (size_t i = thread; i < runs.size(); i += kThreads) {
        CHECK_OK(runs[i]->Enqueue());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < runs.size(); ++i) {
    ExpectAsAlone(runs[i]->Wait(), choices[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Backends, EqualBitsTest,
    testing::Combine(testing::ValuesIn(ConformanceBackends()),
                     testing::ValuesIn(AllWeightsRecipes())),
    BackendAndRecipeName);

}  // namespace
}  // namespace qgemm
