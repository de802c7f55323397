// SPDX-License-Identifier: Apache-2.0
//
// DueRequests, one decision at a time. Random schedules are in
// due_requests_model_test.cc. This binary counts every operator new.

#include "loadtest/engine/due_requests.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "loadtest/schedule/arrivals.h"

namespace {
std::atomic<int64_t> g_allocations{0};
}  // namespace

void* operator new(size_t size_bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const bytes = std::malloc(size_bytes)) return bytes;
  throw std::bad_alloc();
}
void operator delete(void* bytes) noexcept { std::free(bytes); }
void operator delete(void* bytes, size_t) noexcept { std::free(bytes); }

namespace qgemm::loadtest {
namespace {

using Kind = DueAction::Kind;

const absl::Time kStart = absl::FromUnixSeconds(1000);

absl::Time At(double milliseconds) {
  return kStart + absl::Milliseconds(milliseconds);
}

ArrivalSequence ArrivalsAt(const std::vector<double>& milliseconds) {
  auto trace = std::make_shared<ArrivalTrace>();
  for (double offset : milliseconds) {
    trace->offsets.push_back(absl::Milliseconds(offset));
  }
  return ArrivalSequence(std::move(trace), 1);
}

GeneratorOptions OpenOptions(const std::vector<double>& milliseconds,
                             int slots) {
  GeneratorOptions options;
  options.arrivals.emplace(ArrivalsAt(milliseconds));
  options.max_in_flight = slots;
  return options;
}

GeneratorOptions ClosedOptions(const std::vector<int64_t>& clients) {
  GeneratorOptions options;
  for (int64_t number : clients) options.clients.push_back(number);
  return options;
}

// One sender that lasts for a second.
DueRequests OneSender(const GeneratorOptions& options) {
  return DueRequests(options, {0, 1, kStart, At(1000)});
}

// The request that is due; a failure if there is none.
DueRequest TakeSend(DueRequests* due, absl::Time now) {
  const std::optional<DueAction> action = due->Take(now);
  if (action.has_value() && action->kind == Kind::kSend) return action->request;
  ADD_FAILURE() << "nothing to send at " << now;
  return DueRequest();
}

// An event whose probability is below 1e-9 fails a test by chance.
constexpr double kLogOfTwoOverChance = 21.5;  // above ln(2 / 1e-9)

// Hoeffding: |successes - mean| of `trials` exceeds it with at most chance.
double BinomialBound(double trials) {
  return std::sqrt(trials * kLogOfTwoOverChance / 2);
}

// Bernstein, in the limit of rare events: the same of a Poisson count.
double PoissonBound(double mean) {
  const double third = kLogOfTwoOverChance / 3;
  return third + std::sqrt(third * third + 2 * mean * kLogOfTwoOverChance);
}

TEST(DueRequestsTest, EveryClientIsDueAtTheStart) {
  DueRequests due = OneSender(ClosedOptions({7, 8, 9}));
  EXPECT_EQ(due.slots(), 3);
  EXPECT_EQ(due.NextTime(), kStart);
  EXPECT_FALSE(due.Take(kStart - absl::Nanoseconds(1)).has_value());
  std::set<int64_t> clients;
  for (int i = 0; i < 3; ++i) {
    const DueRequest request = TakeSend(&due, At(2));
    EXPECT_FALSE(request.is_open());
    EXPECT_EQ(request.sequence, 0);
    EXPECT_EQ(request.due, kStart);
    EXPECT_EQ(request.ready, kStart);
    clients.insert(request.client);
  }
  EXPECT_EQ(clients, (std::set<int64_t>{7, 8, 9}));
  EXPECT_EQ(due.in_flight(), 3);
  EXPECT_FALSE(due.Take(At(500)).has_value());
  EXPECT_EQ(due.NextTime(), absl::InfiniteFuture());
}

TEST(DueRequestsTest, SendersTogetherSendEveryArrivalOnce) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const int arrivals = static_cast<int>(random() % 50);
  const int senders = 1 + static_cast<int>(random() % 7);
  std::vector<double> offsets(1, 0.0);
  for (int i = 0; i < arrivals; ++i) {
    offsets.push_back(offsets.back() + static_cast<double>(random() % 5));
  }
  std::vector<std::pair<int64_t, absl::Time>> expected;
  for (size_t i = 0; i < offsets.size(); ++i) {
    expected.emplace_back(i, At(offsets[i]));
  }
  std::multiset<std::pair<int64_t, absl::Time>> sent;
  for (int sender = 0; sender < senders; ++sender) {
    GeneratorOptions options = OpenOptions(offsets, senders * 60);
    options.senders = senders;
    DueRequests due(options, {sender, senders, kStart, At(1000)});
    while (const std::optional<DueAction> action = due.Take(At(900))) {
      EXPECT_TRUE(action->request.is_open());
      sent.emplace(action->request.sequence, action->request.due);
    }
  }
  EXPECT_EQ(std::vector(sent.begin(), sent.end()), expected);
}

TEST(DueRequestsTest, ClientsApartHaveASenderOfTheirOwn) {
  GeneratorOptions options = OpenOptions({1}, 10);
  options.clients = {1, 2, 3};
  options.senders = 2;
  EXPECT_EQ(DueRequests::SendersOf(options), 2);
  options.separate_clients = {70, 71};
  options.disturbances.disconnects_per_second = 1000;
  EXPECT_EQ(DueRequests::SendersOf(options), 3);
  EXPECT_EQ(DueRequests::SlotsOf(options, 0), 5 + 2);
  EXPECT_EQ(DueRequests::SlotsOf(options, 1), 5 + 1);
  EXPECT_EQ(DueRequests::SlotsOf(options, 2), 2);
  DueRequests apart(options, {2, 2, kStart, At(1000)});
  EXPECT_EQ(TakeSend(&apart, kStart).client, 70);
  EXPECT_EQ(TakeSend(&apart, kStart).client, 71);
  EXPECT_FALSE(apart.Take(At(500)).has_value())
      << "neither arrivals nor disconnects";
}

TEST(DueRequestsTest, AnArrivalWithAFreeSlotIsReadyWhenItIsDue) {
  DueRequests due = OneSender(OpenOptions({10, 20}, 2));
  EXPECT_EQ(due.NextTime(), At(10));
  EXPECT_FALSE(due.Take(At(10) - absl::Nanoseconds(1)).has_value());
  const DueRequest late = TakeSend(&due, At(13));
  EXPECT_EQ(late.due, At(10));
  EXPECT_EQ(late.ready, At(10));
  EXPECT_EQ(due.NextTime(), At(20));
  const DueRequest next = TakeSend(&due, At(20));
  EXPECT_EQ(next.ready, At(20));
  EXPECT_NE(next.slot, late.slot);
}

TEST(DueRequestsTest, AnArrivalWithoutAFreeSlotIsReadyWhenOneBecomesFree) {
  DueRequests due = OneSender(OpenOptions({10, 20}, 1));
  const int slot = TakeSend(&due, At(10)).slot;
  EXPECT_FALSE(due.Take(At(25)).has_value());
  EXPECT_EQ(due.NextTime(), absl::InfiniteFuture());
  due.Ended(slot, At(30), absl::Hours(1));  // a pause is for clients
  EXPECT_EQ(due.NextTime(), At(20));
  const DueRequest waited = TakeSend(&due, At(31));
  EXPECT_EQ(waited.due, At(20));
  EXPECT_EQ(waited.ready, At(30));
}

TEST(DueRequestsTest, EachWaitingArrivalIsReadyWhenItsOwnSlotBecameFree) {
  DueRequests due = OneSender(OpenOptions({1, 2, 3, 4}, 2));
  const int first = TakeSend(&due, At(1)).slot;
  const int second = TakeSend(&due, At(2)).slot;
  due.Ended(first, At(10), absl::ZeroDuration());
  due.Ended(second, At(12), absl::ZeroDuration());
  // Had it been on time, the generator would have sent the third arrival at 10
  // and the fourth at 12.
  EXPECT_EQ(TakeSend(&due, At(13)).ready, At(10));
  EXPECT_EQ(TakeSend(&due, At(13)).ready, At(12));
}

TEST(DueRequestsTest, GivenUpArrivalsAreNoReasonToWakeUp) {
  DueRequests due = OneSender(OpenOptions({1, 2, 3}, 2));
  const int slot = TakeSend(&due, At(1)).slot;
  TakeSend(&due, At(2));
  due.Ended(slot, At(1000), absl::ZeroDuration());
  ASSERT_FALSE(due.Take(At(1000)).has_value());
  ASSERT_FALSE(due.exhausted(At(1000)));
  // Else whoever waits until then spins while the last request is in flight.
  EXPECT_EQ(due.NextTime(), absl::InfiniteFuture());
}

GeneratorOptions Cancelling(double share, absl::Duration within) {
  GeneratorOptions options = ClosedOptions({1});
  options.disturbances.cancel_share = share;
  options.disturbances.cancel_within = within;
  options.seed = std::random_device{}();
  return options;
}

TEST(DueRequestsTest, ACancelComesWithinItsTime) {
  const GeneratorOptions options = Cancelling(1, absl::Milliseconds(10));
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  DueRequests due = OneSender(options);
  const int slot = TakeSend(&due, At(3)).slot;
  EXPECT_GE(due.NextTime(), At(3));
  EXPECT_LE(due.NextTime(), At(13));
  const std::optional<DueAction> action = due.Take(At(13));
  ASSERT_TRUE(action.has_value());
  EXPECT_EQ(action->kind, Kind::kCancel);
  EXPECT_EQ(action->request.slot, slot);
  EXPECT_EQ(due.in_flight(), 1);  // until it ends
  EXPECT_FALSE(due.Take(At(500)).has_value());
}

TEST(DueRequestsTest, ALateCancelDoesNotHitTheSlotsNextRequest) {
  const GeneratorOptions options = Cancelling(1, absl::Milliseconds(10));
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  DueRequests due = OneSender(options);
  due.Ended(TakeSend(&due, kStart).slot, kStart, absl::Milliseconds(20));
  // The first request's cancel falls into the pause.
  EXPECT_FALSE(due.Take(At(20) - absl::Nanoseconds(1)).has_value());
  const int slot = TakeSend(&due, At(20)).slot;
  due.Ended(slot, At(20), absl::ZeroDuration());
  TakeSend(&due, At(20));
  // The second's is due by 30, the third's too: one is stale.
  ASSERT_TRUE(due.Take(At(30)).has_value());
  EXPECT_FALSE(due.Take(At(30)).has_value());
}

TEST(DueRequestsTest, CancelsTheShareThatWasAsked) {
  constexpr int kRequests = 20000;
  for (const double share : {0.0, 0.01, 0.3, 1.0}) {
    const GeneratorOptions options = Cancelling(share, absl::ZeroDuration());
    SCOPED_TRACE(testing::Message()
                 << "share " << share << ", seed " << options.seed);
    DueRequests due(options, {0, 1, kStart, absl::InfiniteFuture()});
    int cancels = 0;
    for (int i = 0; i < kRequests; ++i) {
      const int slot = TakeSend(&due, At(i)).slot;
      if (due.Take(At(i)).has_value()) ++cancels;
      due.Ended(slot, At(i), absl::Milliseconds(1));
    }
    const bool exact = share == 0 || share == 1;
    EXPECT_NEAR(cancels, share * kRequests,
                exact ? 0 : BinomialBound(kRequests));
  }
}

// Disconnects of all senders together, until `until`.
int CountDisconnects(const GeneratorOptions& options, absl::Time until) {
  int count = 0;
  for (int sender = 0; sender < options.senders; ++sender) {
    DueRequests due(options, {sender, options.senders, kStart, At(100000)});
    while (const std::optional<DueAction> action = due.Take(until)) {
      if (action->kind == Kind::kDisconnect) ++count;
    }
  }
  return count;
}

TEST(DueRequestsTest, DisconnectsAtTheRateOfAllSendersTogether) {
  GeneratorOptions options = ClosedOptions({1, 2, 3});
  options.senders = 3;
  options.disturbances.disconnects_per_second = 40;
  options.seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  constexpr double kMean = 40 * 50;
  EXPECT_NEAR(CountDisconnects(options, At(50000)), kMean, PoissonBound(kMean));
}

// Sends, ends and cancels for `steps` steps; requests take a hundredth of
// `cancel_within`, so that most cancels outlive theirs.
void Churn(DueRequests* due, int steps) {
  absl::Time now = kStart;
  std::vector<int> in_flight;
  in_flight.reserve(due->slots());
  for (int i = 0; i < steps; ++i) {
    now += absl::Microseconds(10);
    while (const std::optional<DueAction> action = due->Take(now)) {
      if (action->kind == Kind::kSend) {
        in_flight.push_back(action->request.slot);
      }
    }
    for (int slot : in_flight) due->Ended(slot, now, absl::ZeroDuration());
    in_flight.clear();
  }
}

TEST(DueRequestsTest, AllocatesOnlyInItsConstruction) {
  GeneratorOptions options = Cancelling(0.9, absl::Milliseconds(1));
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  options.disturbances.disconnects_per_second = 1000;
  options.max_in_flight = 8;
  for (int i = 0; i < 8; ++i) options.clients.push_back(i);
  ArrivalProcess process;
  options.arrivals.emplace(process, RateProfile::Constant(100000),
                           options.seed);
  DueRequests due(options, {0, 1, kStart, At(1000)});
  constexpr int kSteps = 50000;  // half of the run
  constexpr int kWarmup = 1;     // of Churn's own
  Churn(&due, kWarmup);
  const int64_t before = g_allocations.load();
  Churn(&due, kSteps);
  const int64_t own = 1;  // Churn's list
  EXPECT_EQ(g_allocations.load() - before, own);
}

}  // namespace
}  // namespace qgemm::loadtest
