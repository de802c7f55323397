// SPDX-License-Identifier: Apache-2.0
//
// Layers of requests: turns and walks exactly, Zipf by chi-square.

#include "loadtest/workload/weights_pick.h"

#include <cmath>
#include <random>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/loadtest/random/distributions.h"

namespace qgemm {
namespace {

LayerPickOptions Options(LayerOrder order, int layers) {
  LayerPickOptions options;
  options.order = order;
  options.layers = layers;
  return options;
}

LayerPicker Create(const LayerPickOptions& options) {
  const auto picker = LayerPicker::Create(options);
  EXPECT_TRUE(picker.ok()) << picker.status();
  return *picker;
}

TEST(LayerPickerInTurn, TakesEachLayerOnceARound) {
  const LayerPicker picker = Create(Options(LayerOrder::kInTurn, 5));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(picker.Pick(0, i), i % 5);  // a client's requests
    EXPECT_EQ(picker.Pick(i, 0), i % 5);  // arrivals
  }
}

TEST(LayerPickerInTurn, ClientsBeginWithOtherLayers) {
  const LayerPicker picker = Create(Options(LayerOrder::kInTurn, 5));
  std::set<int> layers;
  for (int client = 0; client < 5; ++client) {
    layers.insert(picker.Pick(client, 7));
  }
  EXPECT_EQ(layers.size(), 5);
}

TEST(LayerPickerWalk, GoesThroughTheLayersInOrder) {
  const LayerPicker picker = Create(Options(LayerOrder::kWalk, 7));
  for (int client = 0; client < 100; ++client) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(picker.Pick(client, i + 1), (picker.Pick(client, i) + 1) % 7);
    }
  }
}

TEST(LayerPickerWalk, MayBeginAtTheFirstLayer) {
  LayerPickOptions options = Options(LayerOrder::kWalk, 7);
  options.walk_start = WalkStart::kFirstLayer;
  const LayerPicker picker = Create(options);
  for (int client = 0; client < 100; ++client) {
    EXPECT_EQ(picker.Pick(client, 0), 0);
  }
}

TEST(LayerPickerWalk, PassesEndAtTheLastLayer) {
  const LayerPicker picker = Create(Options(LayerOrder::kWalk, 7));
  for (int client = 0; client < 100; ++client) {
    EXPECT_EQ(picker.Pass(client, 0), 0);
    for (int i = 0; i < 20; ++i) {
      const bool ends = picker.Pick(client, i) == 6;
      EXPECT_EQ(picker.Pass(client, i + 1), picker.Pass(client, i) + ends);
    }
  }
}

class RandomPicks : public testing::Test {
 protected:
  // Of `layers` equally likely or Zipf-distributed counts.
  static double ChiSquare(const std::vector<int64_t>& counts, double exponent,
                          int64_t total) {
    double norm = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      norm += std::pow(i + 1.0, -exponent);
    }
    double chi_square = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const double expected =
          static_cast<double>(total) * std::pow(i + 1.0, -exponent) / norm;
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return chi_square;
  }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_F(RandomPicks, ClientsOfAWalkBeginAnywhere) {
  LayerPickOptions options = Options(LayerOrder::kWalk, 10);
  options.seed = seed_;
  const LayerPicker picker = Create(options);
  constexpr int kClients = 10000;
  std::vector<int64_t> counts(10);
  for (int i = 0; i < kClients; ++i) ++counts[picker.Pick(i, 0)];
  EXPECT_TRUE(IsCredible(ChiSquareCdf(9, ChiSquare(counts, 0, kClients))));
}

// The rarest layer is expected 100000 / (12^2 * 1.6) = 430 times or more: far
// above the handful from which counts are near enough to normal.
constexpr int kZipfLayers = 12;
constexpr int kZipfPicks = 100000;

class ZipfPicks : public RandomPicks,
                  public testing::WithParamInterface<double> {
 protected:
  LayerPicker Picker(uint64_t seed) const {
    LayerPickOptions options = Options(LayerOrder::kZipf, kZipfLayers);
    options.zipf_exponent = GetParam();
    options.seed = seed;
    return Create(options);
  }

  void ExpectZipf(const std::vector<int64_t>& counts) const {
    const double chi_square = ChiSquare(counts, GetParam(), kZipfPicks);
    EXPECT_TRUE(IsCredible(ChiSquareCdf(kZipfLayers - 1, chi_square)))
        << chi_square;
  }
};

TEST_P(ZipfPicks, OfArrivalsHaveTheirDistribution) {
  const LayerPicker picker = Picker(seed_);
  std::vector<int64_t> counts(kZipfLayers);
  for (int i = 0; i < kZipfPicks; ++i) ++counts[picker.Pick(i, 0)];
  ExpectZipf(counts);
}

TEST_P(ZipfPicks, OfClientsHaveTheirDistribution) {
  const LayerPicker picker = Picker(seed_);
  std::vector<int64_t> counts(kZipfLayers);
  for (int i = 0; i < kZipfPicks; ++i) ++counts[picker.Pick(i % 64, i / 64)];
  ExpectZipf(counts);
}

TEST_P(ZipfPicks, FollowFromTheSeed) {
  const LayerPicker picker = Picker(seed_);
  const LayerPicker again = Picker(seed_);
  const LayerPicker other = Picker(uint64_t{seed_} + 1);
  int different = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(picker.Pick(3, i), again.Pick(3, i));
    different += picker.Pick(3, i) != other.Pick(3, i);
  }
  EXPECT_GT(different, 0);
}

INSTANTIATE_TEST_SUITE_P(LayerPicker, ZipfPicks,
                         testing::Values(0.1, 0.9, 1.0, 1.5, 2.0));

TEST(LayerPickerZipf, TheSteepestHasOneLayerForNearlyAll) {
  LayerPickOptions options = Options(LayerOrder::kZipf, 1000);
  options.zipf_exponent = kMaxZipfExponent;
  const LayerPicker picker = Create(options);
  for (int i = 0; i < 10000; ++i) {
    EXPECT_GE(picker.Pick(i, 0), 0);
    EXPECT_LT(picker.Pick(i, 0), 1000);
  }
}

TEST(LayerPickerCreate, RefusesWhatHasNoMeaning) {
  EXPECT_EQ(
      LayerPicker::Create(Options(LayerOrder::kInTurn, 0)).status().code(),
      absl::StatusCode::kInvalidArgument);
  LayerPickOptions options = Options(LayerOrder::kZipf, 3);
  for (double exponent : {0.0, -1.0, 5.1, std::nan("")}) {
    options.zipf_exponent = exponent;
    const absl::Status status = LayerPicker::Create(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << exponent;
    EXPECT_TRUE(absl::StrContains(status.message(), "--zipf=")) << status;
  }
}

}  // namespace
}  // namespace qgemm
