// SPDX-License-Identifier: Apache-2.0
//
// A batch has the same bits before it is recorded and after, where its rows lie
// in the same memory again and where they do not; another layer at the address
// of one that has gone has its own.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/kernels/cuda/backend_test.h"

namespace qgemm::cuda {
namespace {

// Enough for every launch context to record it, then for its place.
constexpr int kBatches = 80;

// Rows of some requests with operands of their own.
class Requests {
 public:
  Requests(Backend* backend, std::shared_ptr<const ResidentWeights> weights,
           const std::vector<int64_t>& rows, const MatmulSignature& signature,
           RandomGenerator* random)
      : backend_(*backend) {
    batch_.weights = std::move(weights);
    batch_.signature = signature;
    for (const int64_t m : rows) {
      const auto a =
          RandomMatrix(signature.a_type, m, batch_.weights->k(), random);
      operands_.push_back(Acquire(a.size()));
      std::copy(a.begin(), a.end(), operands_.back().data());
      uint8_t* const from = operands_.back().data();
      operands_.push_back(
          Acquire(m * batch_.weights->n() * SizeOf(signature.c_type)));
      batch_.segments.push_back({m, from, operands_.back().data()});
    }
  }

  // Runs the batch; returns all results.
  std::vector<uint8_t> Run() {
    for (size_t i = 1; i < operands_.size(); i += 2) {
      std::memset(operands_[i].data(), 0xcd, operands_[i].size_bytes());
    }
    absl::Notification done;
    const absl::Status enqueued = backend_.Enqueue(
        batch_,
        [&](const absl::Status& status, const BatchTimings&, GemmBatch) {
          EXPECT_TRUE(status.ok()) << status;
          done.Notify();
        });
    EXPECT_TRUE(enqueued.ok()) << enqueued;
    if (enqueued.ok()) done.WaitForNotification();
    std::vector<uint8_t> results;
    for (size_t i = 1; i < operands_.size(); i += 2) {
      results.insert(results.end(), operands_[i].data(),
                     operands_[i].data() + operands_[i].size_bytes());
    }
    return results;
  }

 private:
  StagingLease Acquire(int64_t size_bytes) {
    absl::StatusOr<StagingLease> lease = backend_.AcquireStaging(size_bytes);
    CHECK(lease.ok()) << lease.status();
    return *std::move(lease);
  }

  Backend& backend_;
  GemmBatch batch_;
  std::vector<StagingLease> operands_;  // A and C of each
};

class RecordedGemmsTest : public DeviceTest,
                          public testing::WithParamInterface<WeightsRecipe> {
 protected:
  std::shared_ptr<const ResidentWeights> Load(Backend* backend, int64_t n = 200,
                                              int64_t k = 512) {
    return LoadWhole(backend, RandomWeights(GetParam(), n, k, &random_));
  }

  // Mode A16 of fp16 and of fp32, and the other modes that there are, of fp32.
  static std::vector<MatmulSignature> OfferedSignatures(
      const Backend& backend, const ResidentWeights& weights) {
    std::vector<MatmulSignature> signatures = {MatmulSignature()};
    for (const ComputeMode mode :
         {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
      MatmulSignature signature;
      signature.a_type = FloatType::kFloat32;
      signature.mode = mode;
      if (!backend.CheckSupport(weights, signature).ok()) continue;
      signatures.push_back(signature);
    }
    return signatures;
  }

  RandomGenerator random_{FreshSeed()};
};

TEST_P(RecordedGemmsTest, HaveTheBitsOfOthers) {
  const std::unique_ptr<Backend> backend = NewBackend();
  const auto weights = Load(backend.get());
  const absl::Status offered =
      backend->CheckSupport(*weights, MatmulSignature());
  if (!offered.ok()) GTEST_SKIP() << offered;
  for (const MatmulSignature& signature :
       OfferedSignatures(*backend, *weights)) {
    for (const std::vector<int64_t>& rows : std::vector<std::vector<int64_t>>{
             {1}, {3}, {1, 1, 1}, {2, 5, 1, 1}, {16}, {1, 30, 2}, {64}}) {
      Requests requests(backend.get(), weights, rows, signature, &random_);
      const std::vector<uint8_t> first = requests.Run();
      for (int i = 1; i < kBatches; ++i) {
        ASSERT_TRUE(requests.Run() == first)
            << Name(signature.mode) << ", " << rows.size()
            << " requests, first of " << rows[0] << " rows, run " << i;
      }
    }
  }
}

// One request that comes from the same place again has a recording with its
// addresses: of layers whose blocks share K, have one stage each, and end
// within four columns.
TEST_P(RecordedGemmsTest, OneRequestOfFewRowsHasItsBits) {
  const std::unique_ptr<Backend> backend = NewBackend();
  const absl::Status offered =
      backend->CheckSupport(*Load(backend.get()), MatmulSignature());
  if (!offered.ok()) GTEST_SKIP() << offered;
  for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{
           {4096, 4096}, {203, 1024}, {64, 14336}, {16, 128}}) {
    const auto weights = Load(backend.get(), n, k);
    for (const FloatType a_type : {FloatType::kFloat16, FloatType::kBFloat16}) {
      MatmulSignature signature;
      signature.a_type = a_type;
      for (const int64_t rows : {1, 2, 7, 8}) {
        Requests requests(backend.get(), weights, {rows}, signature, &random_);
        const std::vector<uint8_t> first = requests.Run();
        for (int i = 1; i < kBatches; ++i) {
          ASSERT_TRUE(requests.Run() == first)
              << n << "x" << k << ", " << rows << " rows, run " << i;
        }
      }
    }
  }
}

// All run before any is recorded, then in turn.
TEST_P(RecordedGemmsTest, SignaturesOfALayerHaveTheirOwnBits) {
  const std::unique_ptr<Backend> backend = NewBackend();
  const auto weights = Load(backend.get());
  const absl::Status offered =
      backend->CheckSupport(*weights, MatmulSignature());
  if (!offered.ok()) GTEST_SKIP() << offered;
  const std::vector<MatmulSignature> signatures =
      OfferedSignatures(*backend, *weights);
  std::vector<std::unique_ptr<Requests>> requests;
  std::vector<std::vector<uint8_t>> first;
  for (const MatmulSignature& signature : signatures) {
    requests.push_back(std::make_unique<Requests>(backend.get(), weights,
                                                  std::vector<int64_t>{2, 1},
                                                  signature, &random_));
    first.push_back(requests.back()->Run());
  }
  for (int run = 0; run < kBatches; ++run) {
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(requests[i]->Run() == first[i])
          << Name(signatures[i].mode) << " of " << Name(signatures[i].a_type)
          << ", run " << run;
    }
  }
}

TEST_P(RecordedGemmsTest, RequestsInOtherPlacesHaveTheirOwnBits) {
  const std::unique_ptr<Backend> backend = NewBackend();
  const auto weights = Load(backend.get());
  const absl::Status offered =
      backend->CheckSupport(*weights, MatmulSignature());
  if (!offered.ok()) GTEST_SKIP() << offered;
  // 3 rows use the recording of 4. More places than are told apart.
  std::vector<std::unique_ptr<Requests>> requests;
  std::vector<std::vector<uint8_t>> first;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(std::make_unique<Requests>(
        backend.get(), weights, std::vector<int64_t>{i % 2 == 0 ? 4 : 3},
        MatmulSignature(), &random_));
    first.push_back(requests.back()->Run());
  }
  for (const size_t places : {1, 4, 20, 2}) {
    for (int run = 0; run < kBatches; ++run) {
      for (size_t i = 0; i < places; ++i) {
        ASSERT_TRUE(requests[i]->Run() == first[i])
            << i << " of " << places << ", run " << run;
      }
    }
  }
}

TEST_P(RecordedGemmsTest, ALayerInAnothersPlaceHasItsOwn) {
  const std::unique_ptr<Backend> backend = NewBackend();
  const absl::Status offered =
      backend->CheckSupport(*Load(backend.get()), MatmulSignature());
  if (!offered.ok()) GTEST_SKIP() << offered;
  for (int layer = 0; layer < 5; ++layer) {
    Requests requests(backend.get(), Load(backend.get()), {1},
                      MatmulSignature(), &random_);
    const std::vector<uint8_t> first = requests.Run();
    for (int i = 1; i < kBatches; ++i) ASSERT_TRUE(requests.Run() == first);
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, RecordedGemmsTest,
                         testing::ValuesIn(AllWeightsRecipes()),
                         [](const testing::TestParamInfo<WeightsRecipe>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace qgemm::cuda
