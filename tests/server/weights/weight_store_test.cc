// SPDX-License-Identifier: Apache-2.0

#include "server/weights/weight_store.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/weights/counted_weights.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr int64_t kLayerBytes = 100;

std::string Id(int64_t number) { return absl::StrFormat("%064x", number); }

TEST(ValidateWeightsNameTest, AcceptsEveryLegalCharacter) {
  EXPECT_TRUE(ValidateWeightsName("AZaz09._/-").ok());
}

TEST(ValidateWeightsNameTest, AcceptsTheLongestName) {
  EXPECT_TRUE(ValidateWeightsName(std::string(128, 'n')).ok());
}

TEST(ValidateWeightsNameTest, RefusesOthers) {
  for (const std::string& name :
       {std::string(), std::string(129, 'n'), std::string("a b"),
        std::string("a\n"), std::string("a\0", 2), std::string("\xc3\xa4"),
        std::string("a:b"), Id(0xabc), absl::AsciiStrToUpper(Id(0xabc))}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(ValidateWeightsName(name).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

class WeightStoreTest : public testing::Test {
 protected:
  // Commits layer `number`, whose n is its number, too.
  std::shared_ptr<const Weights> Commit(int64_t number,
                                        const std::string& name) {
    auto reservation = store_->Reserve(kLayerBytes);
    EXPECT_TRUE(reservation.ok()) << reservation.status();
    Weights weights;
    weights.id = Id(number);
    weights.resident =
        std::make_shared<CountedWeights>(number, kLayerBytes, &live_);
    return store_->Commit(std::move(weights), *std::move(reservation), name);
  }

  std::string IdOf(const std::string& name_or_id) {
    const auto found = store_->Find(name_or_id);
    return found.ok() ? (*found)->id : found.status().ToString();
  }

  std::atomic<int64_t> live_{0};
  ServerMetrics metrics_;
  std::unique_ptr<WeightStore> store_ =
      std::make_unique<WeightStore>(1000, &metrics_);
};

TEST_F(WeightStoreTest, FindsByName) {
  Commit(1, "layer/1");
  EXPECT_EQ(IdOf("layer/1"), Id(1));
}

TEST_F(WeightStoreTest, FindsByIdInEitherCase) {
  Commit(0xabc, "");
  EXPECT_EQ(IdOf(Id(0xabc)), Id(0xabc));
  EXPECT_EQ(IdOf(absl::AsciiStrToUpper(Id(0xabc))), Id(0xabc));
}

TEST_F(WeightStoreTest, UnknownWeightsErrorNamesWhatWasAsked) {
  const absl::Status status = store_->Find("nobody").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("\"nobody\""));
}

TEST_F(WeightStoreTest, UnknownWeightsErrorIsPrintableAndShort) {
  const std::string message(
      store_->Find(std::string(100000, '\x01')).status().message());
  EXPECT_LT(message.size(), 1000u);
  EXPECT_EQ(message.find('\x01'), std::string::npos);
}

TEST_F(WeightStoreTest, EveryLookupOfUnknownWeightsIsNotFound) {
  EXPECT_EQ(store_->Get("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Unload("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Unload(Id(1)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->BindIfHeld(Id(1), "x"), nullptr);
}

TEST_F(WeightStoreTest, FailedBindLeavesNoName) {
  store_->BindIfHeld(Id(1), "x");
  EXPECT_EQ(store_->Find("x").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(WeightStoreTest, SecondCommitOfAnIdKeepsTheFirst) {
  const auto first = Commit(1, "a");
  const auto second = Commit(1, "b");
  EXPECT_EQ(second, first);
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(store_->reserved_bytes(), kLayerBytes);
}

TEST_F(WeightStoreTest, DescribesAllNamesSorted) {
  Commit(1, "b");
  Commit(1, "c");
  store_->BindIfHeld(Id(1), "a");
  EXPECT_THAT(store_->Get(Id(1))->names, ElementsAre("a", "b", "c"));
}

TEST_F(WeightStoreTest, ListsByFirstNameThenIdNamelessLast) {
  Commit(4, "");
  Commit(3, "");
  Commit(2, "b");
  Commit(1, "c");
  Commit(1, "a");
  std::vector<std::string> ids;
  for (const NamedWeights& listing : store_->List()) {
    ids.push_back(listing.weights->id);
  }
  EXPECT_THAT(ids, ElementsAre(Id(1), Id(2), Id(3), Id(4)));
}

TEST_F(WeightStoreTest, RebindingANameDropsWeightsWithoutAnother) {
  Commit(1, "a");
  Commit(2, "a");
  EXPECT_EQ(IdOf("a"), Id(2));
  EXPECT_FALSE(store_->Find(Id(1)).ok());
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(store_->reserved_bytes(), kLayerBytes);
}

TEST_F(WeightStoreTest, RebindingANameKeepsWeightsWithAnother) {
  Commit(1, "a");
  Commit(1, "b");
  Commit(2, "a");
  EXPECT_EQ(IdOf("b"), Id(1));
}

TEST_F(WeightStoreTest, BindingANameToItsOwnWeightsChangesNothing) {
  Commit(1, "a");
  store_->BindIfHeld(Id(1), "a");
  EXPECT_EQ(IdOf("a"), Id(1));
}

TEST_F(WeightStoreTest, UnloadingOneOfTwoNamesKeepsTheWeights) {
  Commit(1, "a");
  Commit(1, "b");
  EXPECT_THAT(store_->Unload("a").value(), false);
  EXPECT_EQ(IdOf("b"), Id(1));
  EXPECT_FALSE(store_->Find("a").ok());
}

TEST_F(WeightStoreTest, UnloadingTheLastNameFreesTheWeights) {
  Commit(1, "a");
  EXPECT_THAT(store_->Unload("a").value(), true);
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(store_->reserved_bytes(), 0);
}

TEST_F(WeightStoreTest, UnloadingAnIdDropsAllItsNames) {
  Commit(1, "a");
  Commit(1, "b");
  EXPECT_THAT(store_->Unload(Id(1)).value(), true);
  EXPECT_FALSE(store_->Find("a").ok());
  EXPECT_FALSE(store_->Find("b").ok());
  EXPECT_THAT(store_->List(), IsEmpty());
}

TEST_F(WeightStoreTest, LeaseKeepsMemoryAndBudgetAfterUnload) {
  auto lease = Commit(1, "a")->resident;
  EXPECT_THAT(store_->Unload("a").value(), true);
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(store_->reserved_bytes(), kLayerBytes);
  lease.reset();
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(store_->reserved_bytes(), 0);
}

TEST_F(WeightStoreTest, LeaseOutlivesTheStore) {
  auto lease = Commit(7, "a")->resident;
  store_.reset();
  EXPECT_EQ(lease->n(), 7);
  lease.reset();
  EXPECT_EQ(live_, 0);
}

TEST_F(WeightStoreTest, MetricsFollowCountBytesAndBudget) {
  Commit(1, "a");
  Commit(2, "b");
  EXPECT_THAT(MetricValue(metrics_, "qgemm_weights_layers"), Optional(2.0));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_weights_bytes"),
              Optional(2.0 * kLayerBytes));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_weights_budget_bytes"),
              Optional(1000.0));
  store_->Unload("a").value();
  EXPECT_THAT(MetricValue(metrics_, "qgemm_weights_layers"), Optional(1.0));
}

TEST_F(WeightStoreTest, ReadersSeeTheOldWeightsOrTheNewWhileANameIsRebound) {
  constexpr int kRebindings = 2000;
  Commit(1, "a");
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([this, &stop] {
      int64_t last = 0;
      while (!stop) {
        const auto found = store_->Find("a");
        if (!found.ok()) {
          ADD_FAILURE() << found.status();
          return;
        }
        EXPECT_EQ((*found)->id, Id((*found)->resident->n()));
        EXPECT_GE((*found)->resident->n(), last);
        last = (*found)->resident->n();
      }
    });
  }
  for (int64_t number = 2; number <= kRebindings; ++number) {
    // A reader may still lease the one before, each the budget allows.
    while (store_->reserved_bytes() > 900) std::this_thread::yield();
    Commit(number, "a");
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(store_->reserved_bytes(), kLayerBytes);
}

}  // namespace
}  // namespace qgemm
