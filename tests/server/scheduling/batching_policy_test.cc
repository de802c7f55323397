// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/batching_policy.h"

#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

class Weights final : public ResidentWeights {
 public:
  Weights() : ResidentWeights(1, 1) {}
  int64_t resident_bytes() const override { return 1; }
};

const Weights kA, kB;

MatmulSignature Fp16() { return {}; }
MatmulSignature Fp32() {
  return {FloatType::kFloat32, FloatType::kFloat32, ComputeMode::kA16,
          FloatType::kBFloat16};
}

struct Case {
  std::string name;
  std::vector<WaitingRequest> queue;
  BatchingOptions options;
  std::vector<int64_t> batch;
};

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

std::vector<Case> Cases() {
  const WaitingRequest a{&kA, Fp16(), 4};
  const WaitingRequest b{&kB, Fp16(), 4};
  const WaitingRequest a_fp32{&kA, Fp32(), 4};
  const WaitingRequest a_huge{&kA, Fp16(), kHuge};
  return {
      {"EmptyQueueHasNoBatch", {}, {8, 64}, {}},
      {"OneRequestRuns", {a}, {8, 64}, {0}},
      {"OneALaunchByDefault", {a, a, a}, {}, {0}},
      {"EqualNeighboursMerge", {a, a, a}, {8, 64}, {0, 1, 2}},
      {"AtMostMaxRequests", {a, a, a, a}, {3, 64}, {0, 1, 2}},
      {"OtherWeightsArePassedOver", {a, a, b, a}, {8, 64}, {0, 1, 3}},
      {"AnotherSignatureIsPassedOver", {a, a_fp32, a}, {8, 64}, {0, 2}},
      {"TheOldestLeadsWhateverWaits", {b, a, a, a}, {8, 64}, {0}},
      {"RowsUpToTheBoundMerge", {a, a, a}, {8, 12}, {0, 1, 2}},
      {"RowsBeyondTheBoundWait", {a, a, a}, {8, 11}, {0, 1}},
      {"LargeRequestRunsAlone", {a_huge, a}, {8, 64}, {0}},
      {"LargeRequestDoesNotJoin", {a, a_huge, b}, {8, 64}, {0}},
      {"NobodyOvertakesALargeRequestOfItsKind", {a, a_huge, a}, {8, 64}, {0}},
      {"SumOfRowsDoesNotOverflow", {a, a_huge}, {8, kHuge}, {0}},
      {"LooksNoFurtherThanToldTo", {a, b, b, a, a}, {8, 64, 4}, {0, 3}},
  };
}

class BatchingPolicyTest : public testing::TestWithParam<Case> {};

TEST_P(BatchingPolicyTest, ChoosesWhatRunsTogether) {
  EXPECT_EQ(NextBatch(GetParam().queue, GetParam().options), GetParam().batch);
}

INSTANTIATE_TEST_SUITE_P(Table, BatchingPolicyTest, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& row) {
                           return row.param.name;
                         });

}  // namespace
}  // namespace qgemm
