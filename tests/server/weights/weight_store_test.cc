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
constexpr int64_t kBudgetBytes = 10000;
constexpr int64_t kNamedLayerBytes = kLayerBytes + kNameRecordBytes;

std::string Id(int64_t number) { return absl::StrFormat("%064x", number); }

NameBinding Named(const std::string& name) {
  NameBinding binding;
  binding.name = name;
  return binding;
}

TEST(ValidateNameTest, AcceptsEveryLegalCharacter) {
  EXPECT_TRUE(ValidateName("AZaz09._/-").ok());
}

TEST(ValidateNameTest, AcceptsTheLongestName) {
  EXPECT_TRUE(ValidateName(std::string(128, 'n')).ok());
}

TEST(ValidateNameTest, RefusesOthers) {
  for (const std::string& name :
       {std::string(), std::string(129, 'n'), std::string("a b"),
        std::string("a\n"), std::string("a\0", 2), std::string("\xc3\xa4"),
        std::string("a:b"), Id(0xabc), absl::AsciiStrToUpper(Id(0xabc))}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(ValidateName(name).code(), absl::StatusCode::kInvalidArgument);
  }
}

class WeightStoreTest : public testing::Test {
 protected:
  // Commits layer `number`, whose n is its number, too.
  std::shared_ptr<const Weights> Commit(int64_t number,
                                        const std::string& name) {
    auto held = TryCommit(number, Named(name));
    EXPECT_TRUE(held.ok()) << held.status();
    return *held;
  }

  absl::StatusOr<std::shared_ptr<const Weights>> TryCommit(
      int64_t number, const NameBinding& binding) {
    auto reservation = store_->Reserve(kAnybody, kLayerBytes);
    EXPECT_TRUE(reservation.ok()) << reservation.status();
    Weights weights;
    weights.id = Id(number);
    weights.resident =
        std::make_shared<CountedWeights>(number, kLayerBytes, &live_);
    return store_->Commit(kAnybody, std::move(weights), *std::move(reservation),
                          binding);
  }

  // Binds a name to layer `number`, which is held.
  void Bind(int64_t number, const std::string& name) {
    const auto held = store_->BindIfHeld(kAnybody, Id(number), Named(name));
    ASSERT_TRUE(held.ok()) << held.status();
    ASSERT_NE(*held, nullptr);
  }

  // The ids of all layers, read in pages of that many.
  std::vector<std::string> ListedIds(int64_t page_layers) {
    std::vector<std::string> ids;
    std::string place;
    for (bool is_last = false; !is_last;) {
      const WeightsPage page = store_->List(kAnybody, place, page_layers);
      EXPECT_LE(page.entries.size(), static_cast<size_t>(page_layers));
      for (const WeightsPage::Entry& entry : page.entries) {
        ids.push_back(entry.named.record->id);
        place = entry.place;
      }
      is_last = page.is_last;
    }
    return ids;
  }

  void Limit(int64_t layers, int64_t names) {
    store_ = std::make_unique<WeightStore>(
        StoreLimits{kBudgetBytes, layers, names}, &metrics_);
  }

  std::string IdOf(const std::string& name_or_id) {
    const auto found = store_->Find(kAnybody, name_or_id);
    return found.ok() ? (*found)->id : found.status().ToString();
  }

  std::atomic<int64_t> live_{0};
  ServerMetrics metrics_;
  std::unique_ptr<WeightStore> store_ =
      std::make_unique<WeightStore>(StoreLimits{kBudgetBytes}, &metrics_);
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
  const absl::Status status = store_->Find(kAnybody, "nobody").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("\"nobody\""));
}

TEST_F(WeightStoreTest, UnknownWeightsErrorIsPrintableAndShort) {
  const std::string message(
      store_->Find(kAnybody, std::string(100000, '\x01')).status().message());
  EXPECT_LT(message.size(), 1000u);
  EXPECT_EQ(message.find('\x01'), std::string::npos);
}

TEST_F(WeightStoreTest, EveryLookupOfUnknownWeightsIsNotFound) {
  EXPECT_EQ(store_->Get(kAnybody, "x").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Unload(kAnybody, "x").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Unload(kAnybody, Id(1)).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(*store_->BindIfHeld(kAnybody, Id(1), Named("x")), nullptr);
}

TEST_F(WeightStoreTest, FailedBindLeavesNoName) {
  EXPECT_EQ(*store_->BindIfHeld(kAnybody, Id(1), Named("x")), nullptr);
  EXPECT_EQ(store_->Find(kAnybody, "x").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(WeightStoreTest, SecondCommitOfAnIdKeepsTheFirst) {
  const auto first = Commit(1, "a");
  const auto second = Commit(1, "b");
  EXPECT_EQ(second, first);
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(store_->reserved_bytes(), kLayerBytes + 2 * kNameRecordBytes);
}

TEST_F(WeightStoreTest, DescribesNamesSorted) {
  Commit(1, "b");
  Commit(1, "c");
  Bind(1, "a");
  EXPECT_THAT(store_->Get(kAnybody, Id(1))->names, ElementsAre("a", "b", "c"));
}

TEST_F(WeightStoreTest, ListsByFirstNameThenIdNamelessLast) {
  Commit(4, "");
  Commit(3, "");
  Commit(2, "b");
  Commit(1, "c");
  Commit(1, "a");
  for (const int64_t page_layers : {1, 3, 4, 5}) {
    EXPECT_THAT(ListedIds(page_layers),
                ElementsAre(Id(1), Id(2), Id(3), Id(4)));
  }
}

TEST_F(WeightStoreTest, ListsALayerWhereItsFirstNameIsNow) {
  Commit(1, "c");
  Commit(2, "d");
  EXPECT_THAT(ListedIds(2), ElementsAre(Id(1), Id(2)));
  Bind(2, "a");
  EXPECT_THAT(ListedIds(2), ElementsAre(Id(2), Id(1)));
  store_->Unload(kAnybody, "a").value();
  EXPECT_THAT(ListedIds(2), ElementsAre(Id(1), Id(2)));
  Bind(2, "c");
  EXPECT_THAT(ListedIds(2), ElementsAre(Id(2)));
}

TEST_F(WeightStoreTest, PagesGoOnThoughLayersComeAndGo) {
  for (int64_t number = 1; number <= 6; ++number) {
    Commit(number, absl::StrFormat("%d", number));
  }
  const WeightsPage first = store_->List(kAnybody, "", 2);
  store_->Unload(kAnybody, "2").value();
  Commit(7, "0");
  const WeightsPage second =
      store_->List(kAnybody, first.entries.back().place, 2);
  EXPECT_EQ(second.entries[0].named.record->id, Id(3));
  EXPECT_EQ(second.entries[1].named.record->id, Id(4));
  EXPECT_FALSE(second.is_last);
}

TEST_F(WeightStoreTest, DescribesAHundredNamesAndCountsAll) {
  store_ = std::make_unique<WeightStore>(StoreLimits{}, &metrics_);
  Commit(1, "");
  for (int i = 0; i < 250; ++i) Bind(1, absl::StrFormat("n%03d", i));
  const NamedWeights first = *store_->Get(kAnybody, Id(1));
  ASSERT_EQ(first.names.size(), 100u);
  EXPECT_EQ(first.names.back(), "n099");
  EXPECT_EQ(first.name_count, 250);
  const NamedWeights next = *store_->Get(kAnybody, Id(1), first.names.back());
  EXPECT_EQ(next.names.front(), "n100");
  EXPECT_EQ(store_->Get(kAnybody, Id(1), "n199")->names.size(), 50u);
  EXPECT_THAT(store_->Get(kAnybody, Id(1), "n249")->names, IsEmpty());
  EXPECT_EQ(store_->List(kAnybody, "", 1).entries[0].named.names.size(), 100u);
}

TEST_F(WeightStoreTest, NamesTakeOfTheBudgetAndGiveBack) {
  Commit(1, "a");
  EXPECT_EQ(store_->reserved_bytes(), kNamedLayerBytes);
  Bind(1, "b");
  EXPECT_EQ(store_->reserved_bytes(), kNamedLayerBytes + kNameRecordBytes);
  Bind(1, "b");
  EXPECT_EQ(store_->reserved_bytes(), kNamedLayerBytes + kNameRecordBytes);
  store_->Unload(kAnybody, "b").value();
  EXPECT_EQ(store_->reserved_bytes(), kNamedLayerBytes);
  store_->Unload(kAnybody, Id(1)).value();
  EXPECT_EQ(store_->reserved_bytes(), 0);
}

TEST_F(WeightStoreTest, ANameBeyondTheBudgetIsRefusedAndChangesNothing) {
  Commit(1, "a");
  auto others =
      store_->Reserve(kAnybody, kBudgetBytes - store_->reserved_bytes());
  const auto bound = store_->BindIfHeld(kAnybody, Id(1), Named("b"));
  EXPECT_EQ(bound.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(store_->Find(kAnybody, "b").ok());
  EXPECT_EQ(store_->Get(kAnybody, Id(1))->name_count, 1);
}

TEST_F(WeightStoreTest, RefusesLayersBeyondTheLimit) {
  Limit(/*layers=*/2, /*names=*/10);
  Commit(1, "a");
  Commit(2, "");
  const absl::Status refused = TryCommit(3, Named("c")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("2 layers are held"));
  EXPECT_THAT(refused.message(), HasSubstr("--max_layers"));
  EXPECT_FALSE(store_->Find(kAnybody, "c").ok());
  EXPECT_EQ(live_, 2);
  EXPECT_EQ(store_->CheckCommit(kAnybody, Named("c"), Id(3)), refused);
  // Weights that are held already, and those that replace others, fit.
  EXPECT_TRUE(store_->CheckCommit(kAnybody, Named("c"), Id(2)).ok());
  Commit(3, "a");
  EXPECT_EQ(IdOf("a"), Id(3));
}

TEST_F(WeightStoreTest, RefusesNamesBeyondTheLimit) {
  Limit(/*layers=*/10, /*names=*/2);
  Commit(1, "a");
  Bind(1, "b");
  const absl::Status refused =
      store_->BindIfHeld(kAnybody, Id(1), Named("c")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("--max_names"));
  EXPECT_EQ(TryCommit(2, Named("c")).status(), refused);
  EXPECT_EQ(store_->CheckCommit(kAnybody, Named("c"), ""), refused);
  Commit(2, "b");  // a name that is bound already
  Commit(3, "");
  store_->Unload(kAnybody, "a").value();
  Bind(2, "c");
}

TEST_F(WeightStoreTest, CreateOnlyTakesANameThatIsFree) {
  NameBinding binding = Named("a");
  binding.create_only = true;
  EXPECT_TRUE(TryCommit(1, binding).ok());
  EXPECT_TRUE(TryCommit(1, binding).ok());  // again
  EXPECT_TRUE(store_->BindIfHeld(kAnybody, Id(1), binding).ok());
  const absl::Status refused = TryCommit(2, binding).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(refused.message(), HasSubstr(Id(1)));
  EXPECT_EQ(IdOf("a"), Id(1));
  EXPECT_FALSE(store_->Find(kAnybody, Id(2)).ok());
  EXPECT_EQ(store_->CheckCommit(kAnybody, binding, Id(2)), refused);
  EXPECT_EQ(store_->CheckCommit(kAnybody, binding, ""), refused);
}

TEST_F(WeightStoreTest, IfMatchReplacesTheseWeightsAlone) {
  Commit(1, "a");
  NameBinding binding = Named("a");
  binding.if_match = Id(9);
  const absl::Status refused = TryCommit(2, binding).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr(Id(1)));
  EXPECT_EQ(IdOf("a"), Id(1));
  binding.if_match = Id(1);
  EXPECT_TRUE(TryCommit(2, binding).ok());
  EXPECT_EQ(IdOf("a"), Id(2));
  EXPECT_TRUE(TryCommit(2, binding).ok());  // again, after a lost answer
  binding.name = "free";
  EXPECT_EQ(store_->BindIfHeld(kAnybody, Id(2), binding).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(WeightStoreTest, UnloadIfMatchDropsTheseWeightsAlone) {
  Commit(1, "a");
  EXPECT_EQ(store_->Unload(kAnybody, "a", Id(2)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Unload(kAnybody, "a", "id").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(IdOf("a"), Id(1));
  EXPECT_THAT(store_->Unload(kAnybody, "a", Id(1)).value(), true);
}

TEST(NameBindingTest, RefusesConditionsThatCannotBe) {
  EXPECT_TRUE(Validate(NameBinding{}).ok());
  EXPECT_TRUE(Validate(NameBinding{"a", true, ""}).ok());
  EXPECT_TRUE(Validate(NameBinding{"a", false, Id(1)}).ok());
  for (const NameBinding& binding :
       {NameBinding{"a", true, Id(1)}, NameBinding{"a", false, "12ab"},
        NameBinding{"", true, ""}, NameBinding{"", false, Id(1)},
        NameBinding{"a b", false, ""}}) {
    EXPECT_EQ(Validate(binding).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(WeightStoreTest, RebindingANameDropsWeightsWithoutAnother) {
  Commit(1, "a");
  Commit(2, "a");
  EXPECT_EQ(IdOf("a"), Id(2));
  EXPECT_FALSE(store_->Find(kAnybody, Id(1)).ok());
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(store_->reserved_bytes(), kNamedLayerBytes);
}

TEST_F(WeightStoreTest, RebindingANameKeepsWeightsWithAnother) {
  Commit(1, "a");
  Commit(1, "b");
  Commit(2, "a");
  EXPECT_EQ(IdOf("b"), Id(1));
}

TEST_F(WeightStoreTest, BindingANameToItsOwnWeightsChangesNothing) {
  Commit(1, "a");
  Bind(1, "a");
  EXPECT_EQ(IdOf("a"), Id(1));
}

TEST_F(WeightStoreTest, UnloadingOneOfTwoNamesKeepsTheWeights) {
  Commit(1, "a");
  Commit(1, "b");
  EXPECT_THAT(store_->Unload(kAnybody, "a").value(), false);
  EXPECT_EQ(IdOf("b"), Id(1));
  EXPECT_FALSE(store_->Find(kAnybody, "a").ok());
}

TEST_F(WeightStoreTest, UnloadingTheLastNameFreesTheWeights) {
  Commit(1, "a");
  EXPECT_THAT(store_->Unload(kAnybody, "a").value(), true);
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(store_->reserved_bytes(), 0);
}

TEST_F(WeightStoreTest, UnloadingAnIdDropsAllItsNames) {
  Commit(1, "a");
  Commit(1, "b");
  EXPECT_THAT(store_->Unload(kAnybody, Id(1)).value(), true);
  EXPECT_FALSE(store_->Find(kAnybody, "a").ok());
  EXPECT_FALSE(store_->Find(kAnybody, "b").ok());
  EXPECT_THAT(store_->List(kAnybody, "", 1).entries, IsEmpty());
}

TEST_F(WeightStoreTest, LeaseKeepsMemoryAndBudgetAfterUnload) {
  auto lease = Commit(1, "a")->resident;
  EXPECT_THAT(store_->Unload(kAnybody, "a").value(), true);
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
              Optional(2.0 * kNamedLayerBytes));
  EXPECT_THAT(MetricValue(metrics_, "qgemm_weights_budget_bytes"),
              Optional(1.0 * kBudgetBytes));
  store_->Unload(kAnybody, "a").value();
  EXPECT_THAT(MetricValue(metrics_, "qgemm_weights_layers"), Optional(1.0));
}

TEST_F(WeightStoreTest, TrafficFollowsALayerUntilItsMemoryGoes) {
  auto layer = Commit(1, "a");
  EXPECT_EQ(layer->traffic, metrics_.LayerTraffic("a"));
  const int64_t bytes = layer->resident->resident_bytes();
  EXPECT_EQ(layer->traffic->bytes(), bytes);
  Commit(2, "a");  // replaces it; a launch may still use it
  EXPECT_EQ(metrics_.LayerTraffic("a")->bytes(), 2 * bytes);
  layer.reset();
  EXPECT_EQ(metrics_.LayerTraffic("a")->bytes(), bytes);
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
        const auto found = store_->Find(kAnybody, "a");
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
    while (store_->reserved_bytes() > 9000) std::this_thread::yield();
    Commit(number, "a");
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(store_->reserved_bytes(), kNamedLayerBytes);
}

}  // namespace
}  // namespace qgemm
