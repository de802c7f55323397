// SPDX-License-Identifier: Apache-2.0
//
// A store of two clients, an administrator and a reader: what each sees, what
// it may change, and what counts for it.

#include "server/weights/owners.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/weights/weight_store.h"
#include "tests/server/weights/counted_weights.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kLayerBytes = 1000;
// That count for a client that holds a layer.
constexpr int64_t kHeldBytes = kLayerBytes + kLayerRecordBytes;

std::string Id(int64_t number) { return absl::StrFormat("%064x", number); }

NameBinding Named(const std::string& name) { return {name, false, ""}; }

Principal Client(const std::string& id, std::vector<std::string> names,
                 std::vector<std::string> read = {}) {
  Principal client;
  client.client_id = id;
  client.names = std::move(names);
  client.read = std::move(read);
  return client;
}

class OwnersTest : public testing::Test {
 protected:
  absl::Status TryCommit(const Principal& caller, int64_t number,
                         const NameBinding& binding) {
    auto reservation = store_.Reserve(&caller, kHeldBytes);
    if (!reservation.ok()) return reservation.status();
    Weights weights;
    weights.id = Id(number);
    weights.resident =
        std::make_shared<CountedWeights>(number, kLayerBytes, &live_);
    return store_
        .Commit(&caller, std::move(weights), *std::move(reservation), binding)
        .status();
  }

  void Commit(const Principal& caller, int64_t number,
              const std::string& name) {
    const absl::Status status = TryCommit(caller, number, Named(name));
    ASSERT_TRUE(status.ok()) << status;
  }

  bool Sees(const Principal& caller, const std::string& name_or_id) {
    const auto found = store_.Find(&caller, name_or_id);
    EXPECT_EQ(found.ok(), store_.Get(&caller, name_or_id).ok());
    return found.ok();
  }

  absl::Status Unload(const Principal& caller, const std::string& name_or_id,
                      const std::string& if_match = "") {
    return store_.Unload(&caller, name_or_id, if_match).status();
  }

  // "id: names" of each layer, read in parts of that many.
  std::vector<std::string> Listed(const Principal& caller,
                                  int64_t part_layers = 1,
                                  const std::string& prefix = "") {
    std::vector<std::string> lines;
    std::string place;
    for (bool is_last = false; !is_last;) {
      const WeightsPage part = store_.List(&caller, place, part_layers, prefix);
      for (const WeightsPage::Entry& entry : part.entries) {
        lines.push_back(Line(entry.named));
        places_ += entry.place + " ";
      }
      places_ += part.next + " ";
      is_last = part.is_last;
      place = part.next;
    }
    return lines;
  }

  // Whatever the caller asks, the answers to these calls are alike for a name
  // or id that is another's and one that nobody has.
  std::vector<std::string> Answers(const Principal& caller,
                                   const std::string& name_or_id,
                                   const std::string& if_match) {
    std::vector<std::string> answers = {
        store_.Find(&caller, name_or_id).status().ToString(),
        store_.Get(&caller, name_or_id).status().ToString(),
        Unload(caller, name_or_id).ToString(),
        Unload(caller, name_or_id, if_match).ToString()};
    for (std::string& answer : answers) {
      const size_t at = answer.find(name_or_id);
      if (at != std::string::npos) answer.erase(at, name_or_id.size());
    }
    return answers;
  }

  const Principal a_ = Client("a", {"a/"}, {"shared/"});
  const Principal b_ = Client("b", {"b/"}, {"shared/"});
  const Principal publisher_ = Client("publisher", {"shared/"});
  const Principal admin_ = [] {
    Principal admin = Client("admin", {});
    admin.rights.Add(Right::kAdmin);
    return admin;
  }();

  std::string places_;  // that Listed had
  std::atomic<int64_t> live_{0};
  WeightStore store_{StoreLimits()};

 private:
  static std::string Line(const NamedWeights& named) {
    std::string line = absl::StrCat(named.record->resident->n(), ":");
    for (const std::string& name : named.names) {
      absl::StrAppend(&line, " ", name);
    }
    EXPECT_EQ(named.name_count, static_cast<int64_t>(named.names.size()));
    return line;
  }
};

TEST_F(OwnersTest, AnOwnerAndAnAdminSeeANameAndItsId) {
  Commit(a_, 1, "a/x");
  for (const Principal* const caller : {&a_, &admin_}) {
    EXPECT_TRUE(Sees(*caller, "a/x"));
    EXPECT_TRUE(Sees(*caller, Id(1)));
  }
}

TEST_F(OwnersTest, AListByPrefixHasWhatTheCallerMayRead) {
  Commit(a_, 1, "a/x1");
  Commit(a_, 1, "a/y1");
  Commit(a_, 2, "a/x2");
  Commit(a_, 3, "");
  Commit(publisher_, 4, "shared/x");
  Commit(b_, 5, "b/x");
  for (const int64_t part_layers : {1, 2, 100}) {
    EXPECT_THAT(Listed(a_, part_layers, "a/x"),
                ElementsAre("1: a/x1 a/y1", "2: a/x2"));
    EXPECT_THAT(Listed(a_, part_layers, "a/y"), ElementsAre("1: a/x1 a/y1"));
    EXPECT_THAT(Listed(a_, part_layers, "s"), ElementsAre("4: shared/x"));
    EXPECT_THAT(Listed(a_, part_layers, "b/"), IsEmpty());
    EXPECT_THAT(Listed(a_, part_layers, "b/x"), IsEmpty());
  }
  EXPECT_THAT(places_, Not(HasSubstr("b/")));
  EXPECT_THAT(Listed(admin_, 1, "b"), ElementsAre("5: b/x"));
  EXPECT_THAT(Listed(admin_, 1, "a/x"), ElementsAre("1: a/x1 a/y1", "2: a/x2"));
}

TEST_F(OwnersTest, AnothersNamesAndIdsAreAsIfTheyWereNot) {
  Commit(a_, 1, "a/x");
  Commit(a_, 2, "");
  for (const std::string& held : {std::string("a/x"), Id(1), Id(2)}) {
    const std::string free = held == "a/x" ? "a/y" : Id(9);
    EXPECT_FALSE(Sees(b_, held));
    EXPECT_EQ(Answers(b_, held, Id(1)), Answers(b_, free, Id(1)));
    EXPECT_EQ(Answers(b_, held, Id(7)), Answers(b_, free, Id(7)));
  }
  EXPECT_TRUE(Sees(a_, "a/x"));
  EXPECT_TRUE(Sees(a_, Id(2)));
}

TEST_F(OwnersTest, BindingOutsideOfThePrefixesIsDeniedBeBoundOrNot) {
  Commit(a_, 1, "a/x");
  Commit(b_, 2, "b/x");
  std::vector<NameBinding> bindings = {
      Named("a/x"), {"a/x", true, ""}, {"a/x", false, Id(1)}};
  for (NameBinding binding : bindings) {
    const absl::Status held = TryCommit(b_, 2, binding);
    EXPECT_EQ(held.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(held.message(), Not(HasSubstr(Id(1))));
    EXPECT_THAT(held.message(), HasSubstr("\"b/\""));
    EXPECT_EQ(store_.CheckCommit(&b_, binding, Id(2)), held);
    EXPECT_EQ(store_.CheckCommit(&b_, binding, ""), held);
    EXPECT_EQ(store_.BindIfHeld(&b_, Id(2), binding).status(), held);
    binding.name = "a/y";
    EXPECT_EQ(TryCommit(b_, 2, binding).code(), held.code());
  }
  EXPECT_EQ((*store_.Find(&a_, "a/x"))->id, Id(1));
}

TEST_F(OwnersTest, AReaderUsesWhatItMayNotChange) {
  Commit(publisher_, 1, "shared/x");
  EXPECT_TRUE(Sees(b_, "shared/x"));
  EXPECT_TRUE(Sees(b_, Id(1)));
  for (const std::string& held : {std::string("shared/x"), Id(1)}) {
    EXPECT_EQ(Unload(b_, held).code(), absl::StatusCode::kPermissionDenied);
  }
  EXPECT_EQ(TryCommit(b_, 2, Named("shared/x")).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ((*store_.Find(&b_, "shared/x"))->id, Id(1));
}

TEST_F(OwnersTest, WithOnePrefixANameIsOfTheClientThatBoundItFirst) {
  const Principal second = Client("second", {"a/"});
  Commit(a_, 1, "a/x");
  EXPECT_EQ(TryCommit(second, 2, Named("a/x")).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Unload(second, "a/x").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Unload(second, Id(1)).code(), absl::StatusCode::kPermissionDenied);
  // The same layer under it is what it has already.
  EXPECT_TRUE(TryCommit(second, 1, Named("a/x")).ok());
  EXPECT_EQ(Unload(second, "a/x").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(Unload(a_, "a/x").ok());
  Commit(second, 2, "a/x");
  EXPECT_EQ(Unload(a_, "a/x").code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(OwnersTest, AnAdminRebindsAndTheOwnerStays) {
  Commit(a_, 1, "a/x");
  Commit(admin_, 2, "a/x");
  EXPECT_EQ((*store_.Find(&a_, "a/x"))->id, Id(2));
  EXPECT_TRUE(Unload(a_, "a/x").ok());
  EXPECT_EQ(live_, 0);
}

TEST_F(OwnersTest, ALayerOfTwoGoesWithTheSecond) {
  Commit(a_, 1, "a/x");
  EXPECT_EQ(*store_.BindIfHeld(&b_, Id(1), Named("b/x")), nullptr);
  Commit(b_, 1, "b/x");
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(store_.Find(&a_, "a/x").value(), store_.Find(&b_, "b/x").value());
  EXPECT_THAT(store_.Get(&b_, Id(1))->names, ElementsAre("b/x"));
  EXPECT_EQ(store_.Get(&b_, Id(1))->name_count, 1);
  EXPECT_THAT(store_.Get(&admin_, Id(1))->names, ElementsAre("a/x", "b/x"));
  // To the first it is gone, and to nobody else.
  EXPECT_TRUE(*store_.Unload(&a_, Id(1)));
  EXPECT_FALSE(Sees(a_, Id(1)));
  EXPECT_TRUE(Sees(b_, "b/x"));
  EXPECT_EQ(live_, 1);
  EXPECT_TRUE(*store_.Unload(&b_, "b/x"));
  EXPECT_EQ(live_, 0);
}

TEST_F(OwnersTest, UnloadByIdDropsTheCallersNamesAlone) {
  Commit(a_, 1, "a/x");
  Commit(a_, 1, "a/y");
  Commit(publisher_, 1, "shared/x");
  EXPECT_FALSE(*store_.Unload(&a_, Id(1)));  // it may read shared/x
  EXPECT_FALSE(Sees(a_, "a/x"));
  EXPECT_FALSE(Sees(a_, "a/y"));
  EXPECT_TRUE(Sees(a_, Id(1)));
  EXPECT_EQ(Unload(a_, Id(1)).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(*store_.Unload(&publisher_, "shared/x"));
  EXPECT_EQ(live_, 0);
}

TEST_F(OwnersTest, AnAdminUnloadsOfAllOwners) {
  Commit(a_, 1, "a/x");
  Commit(b_, 1, "");
  EXPECT_TRUE(*store_.Unload(&admin_, Id(1)));
  EXPECT_FALSE(Sees(a_, "a/x"));
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(store_.accounts()->BytesOf("a"), 0);
  EXPECT_EQ(store_.accounts()->BytesOf("b"), 0);
}

TEST_F(OwnersTest, AHoldWithoutANameOutlivesAnothersNames) {
  Commit(a_, 1, "");
  Commit(b_, 1, "b/x");
  EXPECT_TRUE(Unload(b_, "b/x").ok());
  EXPECT_TRUE(Sees(a_, Id(1)));
  EXPECT_FALSE(Sees(b_, Id(1)));
  EXPECT_THAT(Listed(a_), ElementsAre("1:"));
  // A name takes the place of the hold.
  Commit(a_, 1, "a/x");
  EXPECT_TRUE(*store_.Unload(&a_, "a/x"));
  EXPECT_EQ(live_, 0);
}

TEST_F(OwnersTest, ListsWhatTheCallerMayReadByItsFirstNameOfThose) {
  Commit(a_, 1, "a/2");
  Commit(a_, 2, "a/1");
  Commit(b_, 1, "b/9");
  Commit(b_, 3, "b/1");
  Commit(publisher_, 4, "shared/a");
  Commit(publisher_, 1, "shared/b");
  Commit(b_, 5, "");
  Commit(a_, 6, "");
  for (const int64_t part_layers : {1, 2, 3, 100}) {
    EXPECT_THAT(Listed(b_, part_layers),
                ElementsAre("3: b/1", "1: b/9 shared/b", "4: shared/a", "5:"));
    EXPECT_THAT(places_, Not(HasSubstr("a/")));
    places_.clear();
    EXPECT_THAT(Listed(a_, part_layers),
                ElementsAre("2: a/1", "1: a/2 shared/b", "4: shared/a", "6:"));
    places_.clear();
    EXPECT_THAT(Listed(admin_, part_layers),
                ElementsAre("2: a/1", "1: a/2 b/9 shared/b", "3: b/1",
                            "4: shared/a", "5:", "6:"));
    places_.clear();
  }
  EXPECT_THAT(Listed(Client("nobody", {})), IsEmpty());
}

TEST_F(OwnersTest, AListThatBeginsAtAGuessTellsNothing) {
  Commit(a_, 1, "a/x");
  Commit(a_, 2, "");
  Commit(b_, 3, "b/x");
  for (const std::string& guess :
       {std::string("0"), std::string("0a/"), std::string("0a/x"),
        std::string("0a/w"), std::string("1"), absl::StrCat("1", Id(1))}) {
    const WeightsPage page = store_.List(&b_, guess, 10);
    EXPECT_TRUE(page.is_last);
    const bool is_behind = guess[0] == '1';
    EXPECT_EQ(page.entries.size(), is_behind ? 0u : 1u) << guess;
  }
}

TEST_F(OwnersTest, ManyNamesOfOneLayerAreListedAsOne) {
  constexpr int kNames = 3000;
  for (int i = 0; i < kNames; ++i) {
    Commit(b_, 1, absl::StrFormat("b/%04d", i));
  }
  Commit(b_, 2, "b/last");
  int layers = 0;
  std::string place;
  for (bool is_last = false; !is_last;) {
    const WeightsPage part = store_.List(&b_, place, 100);
    layers += static_cast<int>(part.entries.size());
    is_last = part.is_last;
    place = part.next;
  }
  EXPECT_EQ(layers, 2);
  EXPECT_EQ(store_.Get(&b_, Id(1))->name_count, kNames);
  Commit(a_, 1, "a/x");
  EXPECT_EQ(store_.Get(&b_, Id(1))->name_count, kNames);
  EXPECT_EQ(store_.Get(&b_, Id(1), "b/2998")->names.size(), 1u);
}

TEST_F(OwnersTest, BytesCountOnceForEachClientThatHoldsThem) {
  Commit(a_, 1, "a/x");
  Commit(a_, 1, "a/y");
  EXPECT_EQ(store_.used_bytes(&a_), kHeldBytes);
  EXPECT_EQ(store_.used_bytes(&b_), 0);
  Commit(b_, 1, "");
  EXPECT_EQ(store_.used_bytes(&a_), kHeldBytes);
  EXPECT_EQ(store_.used_bytes(&b_), kHeldBytes);
  Commit(b_, 2, "b/x");
  EXPECT_EQ(store_.used_bytes(&b_), 2 * kHeldBytes);
  Commit(b_, 1, "b/x");  // rebound, and 2 is gone
  EXPECT_EQ(store_.used_bytes(&b_), kHeldBytes);
  EXPECT_TRUE(Unload(a_, "a/x").ok());
  EXPECT_EQ(store_.used_bytes(&a_), kHeldBytes);
  EXPECT_TRUE(Unload(a_, "a/y").ok());
  EXPECT_EQ(store_.used_bytes(&a_), 0);
  EXPECT_EQ(store_.used_bytes(&admin_), store_.reserved_bytes());
}

TEST_F(OwnersTest, AQuotaOfBytesBoundsOneClientAlone) {
  Principal small = Client("small", {"small/"}, {"shared/"});
  small.quota.weights_bytes = 2 * kHeldBytes;
  Commit(small, 1, "small/1");
  Commit(small, 2, "small/2");
  Commit(small, 2, "small/again");
  const absl::Status refused = TryCommit(small, 3, Named("small/3"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("weights_bytes"));
  EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat(2 * kHeldBytes)));
  EXPECT_FALSE(Sees(small, "small/3"));
  EXPECT_EQ(live_, 2);
  // One that is there already counts as much.
  Commit(publisher_, 4, "shared/x");
  EXPECT_EQ(store_.BindIfHeld(&small, Id(4), Named("small/4")).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Unload(small, "small/1").ok());
  EXPECT_TRUE(store_.BindIfHeld(&small, Id(4), Named("small/4")).ok());
  EXPECT_EQ(store_.limit_bytes(&small), 2 * kHeldBytes);
}

TEST_F(OwnersTest, AnUploadInProgressCountsUntilItEnds) {
  Principal small = Client("small", {"small/"});
  small.quota.weights_bytes = kHeldBytes;
  auto upload = store_.ChargeUpload(&small, kHeldBytes);
  ASSERT_TRUE(upload.ok());
  EXPECT_EQ(store_.ChargeUpload(&small, 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(TryCommit(small, 1, Named("small/x")).code(),
            absl::StatusCode::kResourceExhausted);
  upload->Release();
  EXPECT_EQ(store_.used_bytes(&small), 0);
  Commit(small, 1, "small/x");
}

TEST_F(OwnersTest, AClientLeavesAsManyPlacesAsItTakes) {
  WeightStore store(StoreLimits{0, 6, 10});
  const auto commit = [&](const Principal& caller, int64_t number,
                          const std::string& name) {
    Weights weights;
    weights.id = Id(number);
    weights.resident =
        std::make_shared<CountedWeights>(number, kLayerBytes, &live_);
    return store
        .Commit(&caller, std::move(weights), *store.Reserve(&caller, 0),
                Named(name))
        .status();
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(commit(a_, i, "").ok());
  const absl::Status layers = commit(a_, 3, "");
  EXPECT_EQ(layers.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(layers.message(), HasSubstr("3 layers"));
  EXPECT_THAT(layers.message(), HasSubstr("--max_layers"));
  EXPECT_TRUE(commit(b_, 4, "b/x").ok());
  EXPECT_TRUE(commit(admin_, 5, "x").ok());
  // There are 8 names left.
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(commit(a_, 0, absl::StrCat("a/", i)).ok());
  }
  EXPECT_THAT(commit(a_, 0, "a/more").message(), HasSubstr("4 names"));
  EXPECT_TRUE(commit(a_, 0, "a/0").ok());
}

TEST_F(OwnersTest, AFullTableTellsNothingOfALayerThatIsHeld) {
  WeightStore full(StoreLimits{0, 1, 10});
  Weights weights;
  weights.id = Id(1);
  weights.resident = std::make_shared<CountedWeights>(1, kLayerBytes, &live_);
  ASSERT_TRUE(
      full.Commit(&a_, std::move(weights), *full.Reserve(&a_, 0), Named("a/x"))
          .ok());
  EXPECT_EQ(full.CheckCommit(&b_, Named("b/x"), Id(1)),
            full.CheckCommit(&b_, Named("b/x"), Id(2)));
}

TEST_F(OwnersTest, AFullBudgetIsToldWithoutOthersBytes) {
  WeightStore store(StoreLimits{10 * kHeldBytes});
  const auto held = store.Reserve(&a_, 7 * kHeldBytes);
  const absl::Status refused = store.Reserve(&b_, 4 * kHeldBytes).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat(4 * kHeldBytes)));
  EXPECT_THAT(refused.message(), Not(HasSubstr(absl::StrCat(7 * kHeldBytes))));
  EXPECT_THAT(store.Reserve(&admin_, 4 * kHeldBytes).status().message(),
              HasSubstr(absl::StrCat(7 * kHeldBytes)));
}

TEST(ReadablePrefixesTest, AreSortedWithoutThoseThatOthersCover) {
  const Principal some = Client("a", {"b/", "a/x/"}, {"a/", "b/", "c"});
  EXPECT_THAT(ReadablePrefixes(&some), ElementsAre("a/", "b/", "c"));
  EXPECT_THAT(ReadablePrefixes(&some, "a/x/y"), ElementsAre("a/x/y"));
  EXPECT_THAT(ReadablePrefixes(&some, "a"), ElementsAre("a/"));
  EXPECT_THAT(ReadablePrefixes(&some, "d"), IsEmpty());
  const Principal all = Client("a", {"a/"}, {""});
  EXPECT_THAT(ReadablePrefixes(&all), ElementsAre(""));
  EXPECT_THAT(ReadablePrefixes(&all, "d"), ElementsAre("d"));
  EXPECT_THAT(ReadablePrefixes(kAnybody, "d"), ElementsAre("d"));
}

TEST(OwnerAccountsTest, MemoryOfOneKeyCountsOnce) {
  OwnerAccounts accounts;
  const int layer = 0;
  const int program = 0;
  accounts.Add("a", {{&layer, 100}});
  accounts.Add("a", {{&program, 10}, {&layer, 100}});
  EXPECT_EQ(accounts.BytesOf("a"), 110);
  accounts.Remove("a", {{&layer, 100}});
  EXPECT_EQ(accounts.BytesOf("a"), 110);
  accounts.Remove("a", {{&program, 10}, {&layer, 100}});
  EXPECT_EQ(accounts.BytesOf("a"), 0);
}

TEST(OwnerAccountsTest, ALoweredQuotaRefusesMoreAndKeepsWhatIsHeld) {
  OwnerAccounts accounts;
  const int layer = 0;
  Principal client = Client("a", {});
  accounts.Add("a", {{&layer, 100}});
  client.quota.weights_bytes = 50;
  EXPECT_TRUE(accounts.Check(&client, {{&layer, 100}}).ok());
  EXPECT_FALSE(accounts.Take(&client, 1).ok());
}

}  // namespace
}  // namespace qgemm
