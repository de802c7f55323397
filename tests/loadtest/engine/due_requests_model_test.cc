// SPDX-License-Identifier: Apache-2.0
//
// DueRequests against a simple model over random schedules.

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "loadtest/engine/due_requests.h"

namespace qgemm::loadtest {
namespace {

using Kind = DueAction::Kind;

const absl::Time kStart = absl::FromUnixSeconds(1000);

// Says of each action whether it is right, from plain lists.
class Model {
 public:
  struct Arrival {
    int64_t sequence;
    absl::Time due;
  };
  struct Client {
    int64_t sequence = 0;
    std::optional<absl::Time> turn;  // nothing while a request is in flight
  };
  struct Flight {
    absl::Time sent;
    int64_t client;
    bool cancelled = false;
  };

  Model(const GeneratorOptions& options, const SenderShare& share,
        const ArrivalTrace* trace)
      : cancel_share_(options.disturbances.cancel_share),
        end_(share.end),
        flights_(DueRequests::SlotsOf(options, share.sender)) {
    size_t clients = 0;
    for (size_t i = share.sender; i < options.clients.size();
         i += share.senders) {
      clients_[options.clients[i]].turn = share.start;
      ++clients;
    }
    free_since_.assign(flights_.size() - clients, share.start);
    if (trace == nullptr) return;
    for (size_t i = share.sender; i < trace->offsets.size();
         i += share.senders) {
      arrivals_.push_back(
          {static_cast<int64_t>(i), share.start + trace->offsets[i]});
    }
  }

  // Time of the next send without an end before.
  absl::Time NextSend() const {
    absl::Time next = NextTurn();
    if (!free_since_.empty() && !arrivals_.empty()) {
      next = std::min(next, arrivals_.front().due);
    }
    return next < end_ ? next : absl::InfiniteFuture();
  }

  bool MaySend(absl::Time now) const {
    if (NextTurn() <= now && NextTurn() < end_) return true;
    return now < end_ && !free_since_.empty() && !arrivals_.empty() &&
           arrivals_.front().due <= now;
  }

  void Check(const DueAction& action, absl::Time now) {
    switch (action.kind) {
      case Kind::kSend:
        return action.request.is_open() ? CheckArrival(action.request, now)
                                        : CheckTurn(action.request, now);
      case Kind::kCancel:
        return CheckCancel(action.request.slot, now);
      case Kind::kDisconnect:
        FAIL() << "nobody asked for disconnects";
    }
  }

  void Ended(int slot, absl::Time now, absl::Duration pause) {
    const int64_t client = flights_[slot]->client;
    flights_[slot].reset();
    if (client < 0) {
      free_since_.push_back(now);
    } else {
      clients_[client].turn = now + pause;
    }
  }

  void EndAt(absl::Time end) { end_ = std::min(end_, end); }

  bool exhausted(absl::Time now) const {
    if (in_flight() > 0) return false;
    return now >= end_ ||
           (NextTurn() >= end_ &&
            (arrivals_.empty() || arrivals_.front().due >= end_));
  }

  int64_t Unsent(absl::Time from) const {
    return std::count_if(arrivals_.begin(), arrivals_.end(),
                         [&](const Arrival& arrival) {
                           return arrival.due >= from && arrival.due < end_;
                         });
  }

  int in_flight() const {
    return static_cast<int>(
        std::count_if(flights_.begin(), flights_.end(),
                      [](const auto& flight) { return flight.has_value(); }));
  }
  bool is_busy(int slot) const { return flights_[slot].has_value(); }
  absl::Time end() const { return end_; }

 private:
  absl::Time NextTurn() const {
    absl::Time next = absl::InfiniteFuture();
    for (const auto& [number, client] : clients_) {
      if (client.turn.has_value()) next = std::min(next, *client.turn);
    }
    return next;
  }

  void CheckTurn(const DueRequest& request, absl::Time now) {
    ASSERT_EQ(clients_.count(request.client), 1u);
    Client& client = clients_[request.client];
    ASSERT_TRUE(client.turn.has_value()) << "two requests at a time";
    EXPECT_LE(*client.turn, now);
    EXPECT_LT(*client.turn, end_);
    EXPECT_EQ(*client.turn, NextTurn()) << "out of order";
    EXPECT_EQ(request.due, *client.turn);
    EXPECT_EQ(request.ready, *client.turn);
    EXPECT_EQ(request.sequence, client.sequence++);
    client.turn.reset();
    Fly(request, now);
  }

  void CheckArrival(const DueRequest& request, absl::Time now) {
    ASSERT_TRUE(MaySend(now));
    ASSERT_FALSE(arrivals_.empty());
    ASSERT_FALSE(free_since_.empty());
    EXPECT_EQ(request.sequence, arrivals_.front().sequence);
    EXPECT_EQ(request.due, arrivals_.front().due);
    EXPECT_EQ(request.ready, std::max(request.due, free_since_.front()));
    EXPECT_LE(request.ready, now);
    arrivals_.pop_front();
    free_since_.pop_front();
    Fly(request, now);
  }

  void Fly(const DueRequest& request, absl::Time now) {
    ASSERT_FALSE(is_busy(request.slot)) << "slot " << request.slot;
    flights_[request.slot] = Flight{now, request.client};
  }

  void CheckCancel(int slot, absl::Time now) {
    ASSERT_GT(cancel_share_, 0);
    ASSERT_TRUE(is_busy(slot)) << "slot " << slot;
    Flight& flight = *flights_[slot];
    EXPECT_FALSE(flight.cancelled) << "cancelled twice";
    flight.cancelled = true;
    EXPECT_GE(now, flight.sent);
  }

  const double cancel_share_;
  absl::Time end_;
  std::map<int64_t, Client> clients_;
  std::deque<Arrival> arrivals_;                // not yet sent
  std::deque<absl::Time> free_since_;           // of slots for arrivals
  std::vector<std::optional<Flight>> flights_;  // by slot
};

// A random load, and what drives both.
class Schedule {
 public:
  explicit Schedule(uint64_t seed) : random_(seed) {
    options_.seed = seed;
    options_.senders = static_cast<int>(Draw(1, 4));
    if (Draw(0, 3) > 0) DrawArrivals();
    const int64_t clients = options_.arrivals.has_value()
                                ? Draw(0, 6)
                                : Draw(options_.senders, options_.senders + 6);
    for (int64_t i = 0; i < clients; ++i) options_.clients.push_back({i * 3});
    if (Draw(0, 1) > 0) options_.disturbances.cancel_share = 0.5;
    options_.disturbances.cancel_within = Milliseconds(0, 40);
    share_.sender = static_cast<int>(Draw(0, options_.senders - 1));
    share_.senders = options_.senders;
    share_.start = kStart;
    share_.end = kStart + Milliseconds(1, 400);
  }

  void Run() {
    DueRequests due(options_, share_);
    Model model(options_, share_, trace_.get());
    absl::Time now = kStart - Milliseconds(0, 10);
    while (!due.exhausted(now) && !testing::Test::HasFailure()) {
      ASSERT_LT(now, kStart + absl::Seconds(10)) << "it does not end";
      Drain(&due, &model, now);
      EndSome(&due, &model, now);
      if (Draw(0, 200) == 0) {
        due.EndAt(now);
        model.EndAt(now);
      }
      EXPECT_EQ(due.exhausted(now), model.exhausted(now));
      now += Milliseconds(0, 8);
    }
    if (testing::Test::HasFailure()) return;
    EXPECT_TRUE(model.exhausted(now));
    const absl::Time from = kStart + Milliseconds(0, 400);
    const int64_t unsent = model.Unsent(from);
    EXPECT_EQ(due.CountUnsent(from), unsent);
  }

 private:
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  absl::Duration Milliseconds(int64_t low, int64_t high) {
    return absl::Milliseconds(Draw(low, high));
  }

  void DrawArrivals() {
    trace_ = std::make_shared<ArrivalTrace>();
    absl::Duration offset;
    const int64_t arrivals = Draw(1, 200);
    for (int64_t i = 0; i < arrivals; ++i) {
      offset += Milliseconds(0, 6);
      trace_->offsets.push_back(offset);
    }
    options_.arrivals.emplace(trace_, 1);
    options_.max_in_flight = static_cast<int>(Draw(1, 12));
  }

  // Takes all that is due.
  void Drain(DueRequests* due, Model* model, absl::Time now) {
    while (const std::optional<DueAction> action = due->Take(now)) {
      model->Check(*action, now);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_FALSE(model->MaySend(now)) << "something due is kept back";
    EXPECT_EQ(due->in_flight(), model->in_flight());
    EXPECT_GT(due->NextTime(), now) << "a waiter would spin";
    if (now < model->end()) {
      EXPECT_LE(due->NextTime(), model->NextSend()) << "it would oversleep";
    }
  }

  void EndSome(DueRequests* due, Model* model, absl::Time now) {
    for (int slot = 0; slot < due->slots(); ++slot) {
      if (!model->is_busy(slot) || Draw(0, 3) > 0) continue;
      const absl::Duration pause = Milliseconds(0, 20);
      due->Ended(slot, now, pause);
      model->Ended(slot, now, pause);
      // The thread that completes requests takes one action.
      if (Draw(0, 1) == 0) continue;
      const std::optional<DueAction> action = due->Take(now);
      EXPECT_TRUE(action.has_value() || !model->MaySend(now));
      if (action.has_value()) model->Check(*action, now);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  std::mt19937_64 random_;
  GeneratorOptions options_;
  std::shared_ptr<ArrivalTrace> trace_;
  SenderShare share_;
};

TEST(DueRequestsModelTest, RandomSchedulesAgreeWithTheModel) {
  std::random_device device;
  for (int i = 0; i < 500 && !testing::Test::HasFailure(); ++i) {
    const uint64_t seed = device();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Schedule(seed).Run();
  }
}

}  // namespace
}  // namespace qgemm::loadtest
