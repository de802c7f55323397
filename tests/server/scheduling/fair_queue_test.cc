// SPDX-License-Identifier: Apache-2.0
//
// Requests are told apart by a letter of their client and a number.

#include "server/scheduling/fair_queue.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/scheduling/client_table.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

class FairQueueTest : public testing::Test {
 protected:
  FairQueueTest() { UseKind(LaunchKind::kMerged); }

  void UseKind(LaunchKind kind) {
    QueueKey key;
    key.kind = kind;
    queue_ = std::make_unique<FairQueue>(key, &pools_);
  }

  // Requests of `client` are those of `identity`, else of one for all.
  void Identify(const std::string& client, const std::string& identity) {
    clients_[client].identity =
        &identities_.try_emplace(identity, FairShareOptions()).first->second;
  }

  // A request of `client`, a second younger than the one before.
  WaitingRequest* Make(const std::string& client, int64_t rows,
                       Priority priority = Priority::kNormal) {
    WaitingRequest& waiting = requests_.emplace_back();
    waiting.request = std::make_unique<AdmittedRequest>();
    waiting.request->m = rows;
    waiting.request->client = absl::StrCat(client, ++numbers_[client]);
    waiting.request->priority = priority;
    waiting.request->arrival =
        kStart + absl::Seconds(static_cast<int64_t>(requests_.size()));
    if (clients_[client].identity == nullptr) Identify(client, "all");
    waiting.client = &clients_[client];
    return &waiting;
  }

  WaitingRequest* Push(const std::string& client, int64_t rows,
                       Priority priority = Priority::kNormal) {
    WaitingRequest* const waiting = Make(client, rows, priority);
    Insert(waiting);
    return waiting;
  }
  void Insert(WaitingRequest* waiting) {
    queue_->Push(waiting);
    if (first_ == nullptr) first_ = waiting->queue;
  }

  std::vector<WaitingRequest*> TakeRequests(const BatchBounds& bounds,
                                            const BatchHead& head = {}) {
    std::vector<WaitingRequest*> batch;
    queue_->TakeBatch(bounds, first_->StartOf(head), &batch, &cancelled_);
    return batch;
  }

  // The next batch, launched; for the identity that came first.
  std::vector<std::string> Take(const BatchBounds& bounds,
                                const BatchHead& head = {}) {
    const std::vector<WaitingRequest*> batch = TakeRequests(bounds, head);
    std::vector<std::string> names;
    for (WaitingRequest* const waiting : batch) {
      names.push_back(waiting->request->client);
      queue_->Launched(waiting);
    }
    return names;
  }

  static BatchHead Urgent() {
    BatchHead head;
    head.urgent = true;
    return head;
  }
  static BatchHead AllAged() {
    BatchHead head;
    head.aged_before = absl::InfiniteFuture();
    return head;
  }

  QueuePools pools_;
  std::unique_ptr<FairQueue> queue_;
  IdentityQueue* first_ = nullptr;  // of the first request
  std::map<std::string, IdentityState> identities_;
  std::map<std::string, ClientState> clients_;
  std::map<std::string, int> numbers_;
  std::deque<WaitingRequest> requests_;
  std::vector<WaitingRequest*> cancelled_;
};

TEST_F(FairQueueTest, OneClientIsFirstInFirstOut) {
  for (int i = 0; i < 5; ++i) Push("a", 1);
  EXPECT_THAT(Take({3, 64}), ElementsAre("a1", "a2", "a3"));
  EXPECT_THAT(Take({3, 64}), ElementsAre("a4", "a5"));
  EXPECT_TRUE(queue_->empty());
}

TEST_F(FairQueueTest, ManyRequestsOfAClientDoNotDelayAnothersOne) {
  for (int i = 0; i < 1000; ++i) Push("a", 1);
  Push("b", 1);
  EXPECT_THAT(Take({64, 16}), testing::Contains("b1"));
}

TEST_F(FairQueueTest, ClientsShareRowsEvenlyWhateverTheirRequestsHave) {
  for (int i = 0; i < 400; ++i) Push("small", 1);
  for (int i = 0; i < 100; ++i) Push("large", 30);
  std::map<char, int64_t> rows;
  for (int i = 0; i < 10; ++i) {
    for (const std::string& name : Take({64, 64})) {
      rows[name[0]] += name[0] == 's' ? 1 : 30;
    }
  }
  // Never further apart than one request and one quantum.
  EXPECT_NEAR(rows['s'], rows['l'], 30 + kQuantumRows);
}

TEST_F(FairQueueTest, RequestThatDoesNotFitGoesFirstNextTime) {
  Push("a", 40);
  Push("b", 40);
  Push("c", 8);
  EXPECT_THAT(Take({64, 64}), ElementsAre("c1", "a1"));
  EXPECT_THAT(Take({64, 64}), ElementsAre("b1"));
}

TEST_F(FairQueueTest, OneRequestMayHaveMoreRowsThanABatch) {
  Push("a", 100);
  Push("a", 1);
  EXPECT_THAT(Take({64, 64}), ElementsAre("a1"));
}

TEST_F(FairQueueTest, HigherPrioritiesGoFirst) {
  Push("a", 1, Priority::kLow);
  Push("a", 1, Priority::kNormal);
  Push("b", 1, Priority::kHigh);
  EXPECT_EQ(first_->highest_priority(), Priority::kHigh);
  EXPECT_THAT(Take({64, 64}), ElementsAre("b1", "a2", "a1"));
}

TEST_F(FairQueueTest, AgedRequestOfLowerPriorityBeginsEveryOtherBatch) {
  for (int i = 0; i < 3; ++i) Push("low", 1, Priority::kLow);
  for (int i = 0; i < 6; ++i) Push("high", 1, Priority::kHigh);
  EXPECT_THAT(Take({2, 64}, AllAged()), ElementsAre("low1", "high1"));
  EXPECT_THAT(Take({2, 64}, AllAged()), ElementsAre("high2", "high3"));
  EXPECT_THAT(Take({2, 64}, AllAged()), ElementsAre("low2", "high4"));
}

TEST_F(FairQueueTest, YoungRequestOfLowerPriorityWaits) {
  Push("low", 1, Priority::kLow);
  Push("high", 1, Priority::kHigh);
  EXPECT_THAT(Take({1, 64}), ElementsAre("high1"));
}

TEST_F(FairQueueTest, UrgentRequestBringsThoseBeforeItOfItsClient) {
  Push("a", 1, Priority::kHigh);
  Push("b", 1);
  Push("c", 1);
  WaitingRequest* const due = Make("c", 1);
  due->request->deadline = kStart;
  Insert(due);
  EXPECT_EQ(first_->deadlines().earliest(), kStart);
  EXPECT_THAT(Take({2, 64}, Urgent()), ElementsAre("c1", "c2"));
}

TEST_F(FairQueueTest, ClientPaysForItsUrgentRequestLater) {
  for (int i = 0; i < 2; ++i) Push("a", 16);
  WaitingRequest* const due = Make("b", 64);
  due->request->deadline = kStart;
  Insert(due);
  Push("b", 16);
  EXPECT_THAT(Take({1, 64}, Urgent()), ElementsAre("b1"));
  EXPECT_THAT(Take({64, 64}), ElementsAre("a1", "a2", "b2"));
}

TEST_F(FairQueueTest, CancelledRequestsAreTakenOut) {
  Push("a", 1)->request->cancelled = std::make_shared<std::atomic<bool>>(true);
  Push("a", 1);
  EXPECT_THAT(Take({64, 64}), ElementsAre("a2"));
  ASSERT_EQ(cancelled_.size(), 1u);
  EXPECT_EQ(cancelled_[0]->request->client, "a1");
  EXPECT_TRUE(queue_->empty());
}

TEST_F(FairQueueTest, RestoredRequestsKeepTheirOrderAndTheirTurn) {
  for (const char* client : {"a", "a", "b", "b"}) Push(client, 8);
  const std::vector<WaitingRequest*> batch = TakeRequests({64, 64});
  ASSERT_EQ(batch.size(), 4u);
  queue_->Launched(batch[0]);
  for (int i = 3; i >= 1; --i) queue_->Restore(batch[i]);
  EXPECT_EQ(queue_->requests(), 3);
  EXPECT_EQ(queue_->rows(), 24);
  EXPECT_THAT(Take({64, 64}), ElementsAre("b1", "b2", "a2"));
}

TEST_F(FairQueueTest, ChunksOfLargeRequestsTakeTurns) {
  UseKind(LaunchKind::kChunk);
  Push("a", 2048);
  Push("b", 2048);
  std::vector<std::string> order;
  for (int i = 0; i < 4; ++i) {
    const std::vector<WaitingRequest*> batch = TakeRequests({1, 64});
    ASSERT_EQ(batch.size(), 1u);
    queue_->Launched(batch[0]);
    order.push_back(batch[0]->request->client);
    batch[0]->state.in_launch.first += 512;
    queue_->PushUnfinished(batch[0]);
  }
  EXPECT_THAT(order, ElementsAre("a1", "b1", "a1", "b1"));
  EXPECT_EQ(queue_->rows(), 2048);
}

TEST_F(FairQueueTest, UnfinishedRequestGoesBeforeItsClientsNext) {
  UseKind(LaunchKind::kChunk);
  WaitingRequest* const first = Push("a", 2048);
  Push("a", 2048);
  EXPECT_THAT(Take({1, 64}), ElementsAre("a1"));
  queue_->PushUnfinished(first);
  EXPECT_THAT(Take({1, 64}), ElementsAre("a1"));
}

TEST_F(FairQueueTest, TellsWhoWaitsLongest) {
  WaitingRequest* const first = Push("a", 1);
  WaitingRequest* const second = Push("b", 1);
  EXPECT_EQ(first_->oldest(), first);
  queue_->Remove(first);
  EXPECT_EQ(first_->oldest(), second);
  queue_->Remove(second);
  EXPECT_EQ(first_->oldest(), nullptr);
}

TEST_F(FairQueueTest, ClientsThatAnIdentityInventsDoNotDelayAnother) {
  Identify("modest", "b");
  for (int i = 0; i < 500; ++i) {
    const std::string invented = absl::StrCat("x", i, "-");
    Identify(invented, "a");
    Push(invented, 1);
  }
  for (int i = 0; i < 32; ++i) Push("modest", 1);
  int64_t modest = 0;
  for (const std::string& name : Take({64, 64})) modest += name[0] == 'm';
  // Half of the batch, but for a quantum.
  EXPECT_NEAR(modest, 32, kQuantumRows);
}

TEST_F(FairQueueTest, PriorityOrdersOnlyTheRequestsOfItsIdentity) {
  Identify("low", "a");
  Identify("high", "b");
  for (int i = 0; i < 64; ++i) Push("low", 1, Priority::kLow);
  for (int i = 0; i < 64; ++i) Push("high", 1, Priority::kHigh);
  int64_t low = 0;
  for (const std::string& name : Take({64, 64})) low += name[0] == 'l';
  EXPECT_NEAR(low, 32, kQuantumRows);
}

TEST_F(FairQueueTest, BatchBeginsWithTheIdentityThatItIsFor) {
  Identify("late", "b");
  for (int i = 0; i < 3; ++i) Push("early", 8);
  WaitingRequest* const late = Push("late", 1);
  first_ = late->queue;
  EXPECT_THAT(Take({2, 64}), ElementsAre("late1", "early1"));
}

TEST_F(FairQueueTest, EmptiedQueueOfAnIdentityIsReused) {
  Push("a", 1);
  Take({1, 64});
  IdentityQueue* const emptied = std::exchange(first_, nullptr);
  queue_->Release(emptied);
  Identify("b", "another");
  EXPECT_EQ(Push("b", 1)->queue, emptied);
  EXPECT_THAT(Take({1, 64}), ElementsAre("b1"));
}

}  // namespace
}  // namespace qgemm
