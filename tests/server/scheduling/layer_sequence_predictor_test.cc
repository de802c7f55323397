// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/layer_sequence_predictor.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

constexpr int64_t kLayers = 20;
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

class LayerSequencePredictorTest : public testing::Test {
 protected:
  // A client walks all layers `rounds` times, beginning and ending at layer 0,
  // and goes away.
  void Walk(int rounds) {
    SequenceLayer* last = nullptr;
    for (int64_t i = 0; i <= rounds * kLayers; ++i) {
      SequenceLayer* const next = &layers_[i % kLayers];
      predictor_.Observe(last, next, kNow - absl::Hours(1));
      last = next;
    }
    --last->clients;
  }

  void Arrive(int64_t layer, absl::Time now = kNow) {
    predictor_.Observe(nullptr, &layers_[layer], now);
  }

  std::optional<int64_t> Behind(int64_t layer) {
    predictor_.BeginDecision(kNow);
    return predictor_.LayersBehind(layers_[layer]);
  }

  std::vector<SequenceLayer> layers_ = std::vector<SequenceLayer>(kLayers);
  LayerSequencePredictor predictor_;
};

TEST_F(LayerSequencePredictorTest, TrustsClientsThatWalk) {
  EXPECT_FALSE(predictor_.trusted());
  Walk(50);
  EXPECT_TRUE(predictor_.trusted());
}

TEST_F(LayerSequencePredictorTest, DoesNotTrustClientsThatJump) {
  RandomGenerator random(FreshSeed());
  Walk(50);
  SequenceLayer* last = &layers_[0];
  ++last->clients;
  for (int i = 0; i < 2000; ++i) {
    SequenceLayer* const next = &layers_[RandomInt(0, kLayers - 1, &random)];
    predictor_.Observe(last, next, kNow);
    last = next;
  }
  EXPECT_FALSE(predictor_.trusted());
}

TEST_F(LayerSequencePredictorTest, CountsLayersToTheNextClientOnTheWay) {
  Walk(2);
  Arrive(3);
  Arrive(10);
  EXPECT_EQ(Behind(3), 7);
  EXPECT_EQ(Behind(10), kLayers - 7);
  EXPECT_EQ(Behind(9), 1);
}

TEST_F(LayerSequencePredictorTest, CountsLayersToRequestsThatWait) {
  Walk(2);
  layers_[5].has_waiting = true;
  EXPECT_EQ(Behind(1), 4);
}

TEST_F(LayerSequencePredictorTest, OneAloneIsBehindNobody) {
  Walk(2);
  Arrive(3);
  EXPECT_EQ(Behind(3), std::nullopt);
}

TEST_F(LayerSequencePredictorTest, ForgetsClientsThatWentAway) {
  Walk(2);
  Arrive(10, kNow - absl::Seconds(1));
  EXPECT_EQ(Behind(3), std::nullopt);
}

TEST_F(LayerSequencePredictorTest, OneJumpDoesNotChangeWhatWasLearned) {
  Walk(5);
  Arrive(3);
  predictor_.Observe(&layers_[3], &layers_[7], kNow);
  Arrive(5);
  EXPECT_EQ(Behind(3), 2);
}

TEST_F(LayerSequencePredictorTest, LearnsAnotherOrder) {
  Walk(5);
  for (int i = 0; i < 10; ++i) {
    Arrive(3);
    predictor_.Observe(&layers_[3], &layers_[7], kNow);
  }
  EXPECT_EQ(Behind(3), 1);
}

TEST_F(LayerSequencePredictorTest, DecisionOverManyLayersEnds) {
  std::vector<SequenceLayer> many(100'000);
  for (size_t i = 1; i < many.size(); ++i) {
    predictor_.Observe(&many[i - 1], &many[i], kNow - absl::Hours(1));
  }
  predictor_.BeginDecision(kNow);
  EXPECT_EQ(predictor_.LayersBehind(many[0]), std::nullopt);
}

}  // namespace
}  // namespace qgemm
