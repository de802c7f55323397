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
#include "loadtest/schedule/arrival_trace.h"
#include "loadtest/schedule/arrivals.h"
#include "loadtest/schedule/rate_profile.h"
#include "gtest/gtest.h"

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

namespace qgemm {
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
                             int places) {
  GeneratorOptions options;
  options.arrivals.emplace(ArrivalsAt(milliseconds));
  options.max_in_flight = places;
  return options;
}

GeneratorOptions ClosedOptions(const std::vector<int64_t>& clients) {
  GeneratorOptions options;
  for (int64_t number : clients) options.clients.push_back({number});
  return options;
}

// One lane that lasts for a second.
DueRequests OneLane(const GeneratorOptions& options) {
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
  DueRequests due = OneLane(ClosedOptions({7, 8, 9}));
  EXPECT_EQ(due.places(), 3);
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

TEST(DueRequestsTest, AClientsNextRequestIsDueAPauseAfterItsEnd) {
  DueRequests due = OneLane(ClosedOptions({7}));
  const int place = TakeSend(&due, kStart).place;
  due.Ended(place, At(10), absl::Milliseconds(5));
  EXPECT_EQ(due.in_flight(), 0);
  EXPECT_EQ(due.NextTime(), At(15));
  EXPECT_FALSE(due.Take(At(15) - absl::Nanoseconds(1)).has_value());
  const DueRequest request = TakeSend(&due, At(17));
  EXPECT_EQ(request.client, 7);
  EXPECT_EQ(request.sequence, 1);
  EXPECT_EQ(request.place, place);
  EXPECT_EQ(request.due, At(15));
  EXPECT_EQ(request.ready, At(15));
}

TEST(DueRequestsTest, TurnsComeInTheOrderOfTheirTimes) {
  DueRequests due = OneLane(ClosedOptions({0, 1, 2}));
  std::vector<int> place_of(3);
  for (int i = 0; i < 3; ++i) {
    const DueRequest request = TakeSend(&due, kStart);
    place_of[request.client] = request.place;
  }
  due.Ended(place_of[0], At(1), absl::Milliseconds(30));
  due.Ended(place_of[1], At(1), absl::Milliseconds(10));
  due.Ended(place_of[2], At(1), absl::Milliseconds(20));
  EXPECT_EQ(TakeSend(&due, At(100)).client, 1);
  EXPECT_EQ(TakeSend(&due, At(100)).client, 2);
  EXPECT_EQ(TakeSend(&due, At(100)).client, 0);
}

TEST(DueRequestsTest, EachClientBelongsToOneLane) {
  constexpr int kLanes = 3;
  const GeneratorOptions base = ClosedOptions({10, 11, 12, 13, 14, 15, 16, 17});
  std::multiset<int64_t> clients;
  for (int lane = 0; lane < kLanes; ++lane) {
    GeneratorOptions options = base;
    options.lanes = kLanes;
    DueRequests due(options, {lane, kLanes, kStart, At(1000)});
    EXPECT_EQ(due.places(), DueRequests::PlacesOf(options, lane));
    while (due.Take(kStart).has_value()) {
    }
    for (int i = 0; i < due.places(); ++i) {
      due.Ended(i, At(1), absl::ZeroDuration());
      clients.insert(TakeSend(&due, At(1)).client);
    }
  }
  EXPECT_EQ(clients, (std::multiset<int64_t>{10, 11, 12, 13, 14, 15, 16, 17}));
}

TEST(DueRequestsTest, LanesTogetherSendEveryArrivalOnce) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const int arrivals = static_cast<int>(random() % 50);
  const int lanes = 1 + static_cast<int>(random() % 7);
  std::vector<double> offsets(1, 0.0);
  for (int i = 0; i < arrivals; ++i) {
    offsets.push_back(offsets.back() + static_cast<double>(random() % 5));
  }
  std::vector<std::pair<int64_t, absl::Time>> expected;
  for (size_t i = 0; i < offsets.size(); ++i) {
    expected.emplace_back(i, At(offsets[i]));
  }
  std::multiset<std::pair<int64_t, absl::Time>> sent;
  for (int lane = 0; lane < lanes; ++lane) {
    GeneratorOptions options = OpenOptions(offsets, lanes * 60);
    options.lanes = lanes;
    DueRequests due(options, {lane, lanes, kStart, At(1000)});
    while (const std::optional<DueAction> action = due.Take(At(900))) {
      EXPECT_TRUE(action->request.is_open());
      sent.emplace(action->request.sequence, action->request.due);
    }
  }
  EXPECT_EQ(std::vector(sent.begin(), sent.end()), expected);
}

TEST(DueRequestsTest, PlacesOfAllLanesAreTheMostInFlight) {
  GeneratorOptions options = OpenOptions({1}, 10);
  for (int i = 0; i < 5; ++i) options.clients.push_back({i});
  for (options.lanes = 1; options.lanes <= 10; ++options.lanes) {
    int places = 0;
    for (int lane = 0; lane < options.lanes; ++lane) {
      places += DueRequests::PlacesOf(options, lane);
    }
    EXPECT_EQ(places, 15) << options.lanes << " lanes";
  }
}

TEST(DueRequestsTest, ClientsApartHaveALaneOfTheirOwn) {
  GeneratorOptions options = OpenOptions({1}, 10);
  options.clients = {{1}, {2}, {3}};
  options.lanes = 2;
  EXPECT_EQ(DueRequests::LanesOf(options), 2);
  options.clients_apart = {{70}, {71}};
  options.disturbances.disconnects_per_second = 1000;
  EXPECT_EQ(DueRequests::LanesOf(options), 3);
  EXPECT_EQ(DueRequests::PlacesOf(options, 0), 5 + 2);
  EXPECT_EQ(DueRequests::PlacesOf(options, 1), 5 + 1);
  EXPECT_EQ(DueRequests::PlacesOf(options, 2), 2);
  DueRequests apart(options, {2, 2, kStart, At(1000)});
  EXPECT_EQ(TakeSend(&apart, kStart).client, 70);
  EXPECT_EQ(TakeSend(&apart, kStart).client, 71);
  EXPECT_FALSE(apart.Take(At(500)).has_value())
      << "neither arrivals nor disconnects";
}

TEST(DueRequestsTest, AnArrivalWithAFreePlaceIsReadyWhenItIsDue) {
  DueRequests due = OneLane(OpenOptions({10, 20}, 2));
  EXPECT_EQ(due.NextTime(), At(10));
  EXPECT_FALSE(due.Take(At(10) - absl::Nanoseconds(1)).has_value());
  const DueRequest late = TakeSend(&due, At(13));
  EXPECT_EQ(late.due, At(10));
  EXPECT_EQ(late.ready, At(10));
  EXPECT_EQ(due.NextTime(), At(20));
  const DueRequest next = TakeSend(&due, At(20));
  EXPECT_EQ(next.ready, At(20));
  EXPECT_NE(next.place, late.place);
}

TEST(DueRequestsTest, AnArrivalWithoutAFreePlaceIsReadyWhenOneBecomesFree) {
  DueRequests due = OneLane(OpenOptions({10, 20}, 1));
  const int place = TakeSend(&due, At(10)).place;
  EXPECT_FALSE(due.Take(At(25)).has_value());
  EXPECT_EQ(due.NextTime(), absl::InfiniteFuture());
  due.Ended(place, At(30), absl::Hours(1));  // a pause is for clients
  EXPECT_EQ(due.NextTime(), At(20));
  const DueRequest waited = TakeSend(&due, At(31));
  EXPECT_EQ(waited.due, At(20));
  EXPECT_EQ(waited.ready, At(30));
}

TEST(DueRequestsTest, EachWaitingArrivalIsReadyWhenItsOwnPlaceBecameFree) {
  DueRequests due = OneLane(OpenOptions({1, 2, 3, 4}, 2));
  const int first = TakeSend(&due, At(1)).place;
  const int second = TakeSend(&due, At(2)).place;
  due.Ended(first, At(10), absl::ZeroDuration());
  due.Ended(second, At(12), absl::ZeroDuration());
  // Had it been on time, the generator would have sent the third arrival at 10
  // and the fourth at 12.
  EXPECT_EQ(TakeSend(&due, At(13)).ready, At(10));
  EXPECT_EQ(TakeSend(&due, At(13)).ready, At(12));
}

TEST(DueRequestsTest, ArrivalsTakeTurnsOverThePlaces) {
  // A transport's connections go with the places.
  constexpr int kPlaces = 4;
  DueRequests due = OneLane(OpenOptions({1, 2, 3, 4, 5, 6, 7, 8}, kPlaces));
  std::set<int> used;
  for (int i = 1; i <= kPlaces; ++i) {
    const int place = TakeSend(&due, At(i)).place;
    used.insert(place);
    due.Ended(place, At(i + 0.5), absl::ZeroDuration());
  }
  EXPECT_EQ(used.size(), kPlaces);
}

TEST(DueRequestsTest, ClientsRunBesideArrivals) {
  GeneratorOptions options = OpenOptions({0, 1}, 1);
  options.clients.push_back({5});
  DueRequests due = OneLane(options);
  std::multiset<int64_t> clients;
  clients.insert(TakeSend(&due, At(0)).client);
  clients.insert(TakeSend(&due, At(0)).client);
  EXPECT_EQ(clients, (std::multiset<int64_t>{-1, 5}));
  EXPECT_EQ(due.in_flight(), 2);
  EXPECT_FALSE(due.Take(At(2)).has_value());
}

TEST(DueRequestsTest, NothingDueAtTheEndOrLaterIsSent) {
  GeneratorOptions options = OpenOptions({999, 1000, 1001}, 10);
  options.clients.push_back({5});
  DueRequests due = OneLane(options);
  const int client = TakeSend(&due, kStart).place;
  EXPECT_EQ(TakeSend(&due, At(999)).due, At(999));
  due.Ended(client, At(990), absl::Milliseconds(10));
  EXPECT_FALSE(due.Take(At(1000)).has_value());
  EXPECT_FALSE(due.Take(At(2000)).has_value());
}

TEST(DueRequestsTest, AClientsTurnJustBeforeTheEndIsSent) {
  DueRequests due = OneLane(ClosedOptions({5}));
  due.Ended(TakeSend(&due, kStart).place, At(990),
            absl::Milliseconds(10) - absl::Nanoseconds(1));
  EXPECT_EQ(TakeSend(&due, At(999.9999995)).due,
            At(1000) - absl::Nanoseconds(1));
}

TEST(DueRequestsTest, WaitingArrivalsAreGivenUpAtTheEnd) {
  DueRequests due = OneLane(OpenOptions({1, 2, 3}, 1));
  const int place = TakeSend(&due, At(1)).place;
  EXPECT_FALSE(due.exhausted(At(1000)));
  due.Ended(place, At(1000), absl::ZeroDuration());
  EXPECT_FALSE(due.Take(At(1000)).has_value());
  EXPECT_TRUE(due.exhausted(At(1000)));
  EXPECT_EQ(due.CountUnsent(kStart), 2);
}

TEST(DueRequestsTest, GivenUpArrivalsAreNoReasonToWakeUp) {
  DueRequests due = OneLane(OpenOptions({1, 2, 3}, 2));
  const int place = TakeSend(&due, At(1)).place;
  TakeSend(&due, At(2));
  due.Ended(place, At(1000), absl::ZeroDuration());
  ASSERT_FALSE(due.Take(At(1000)).has_value());
  ASSERT_FALSE(due.exhausted(At(1000)));
  // Else whoever waits until then spins while the last request is in flight.
  EXPECT_EQ(due.NextTime(), absl::InfiniteFuture());
}

TEST(DueRequestsTest, CountsUnsentArrivalsFromATimeOn) {
  DueRequests due = OneLane(OpenOptions({1, 5, 6, 7, 1000}, 1));
  TakeSend(&due, At(1));
  EXPECT_EQ(due.CountUnsent(At(6)), 2);
}

TEST(DueRequestsTest, OnlyTheLanesOwnArrivalsAreUnsent) {
  GeneratorOptions options = OpenOptions({1, 2, 3, 4, 5}, 2);
  options.lanes = 2;
  DueRequests even(options, {0, 2, kStart, At(1000)});
  DueRequests odd(options, {1, 2, kStart, At(1000)});
  EXPECT_EQ(even.CountUnsent(kStart), 3);
  EXPECT_EQ(odd.CountUnsent(kStart), 2);
}

TEST(DueRequestsTest, ClientsLeaveNothingUnsent) {
  DueRequests due = OneLane(ClosedOptions({1, 2}));
  EXPECT_EQ(due.CountUnsent(kStart), 0);
}

TEST(DueRequestsTest, ARequestIsToldOverdueOnceAndNotAfterItsEnd) {
  DueRequests due = OneLane(OpenOptions({1, 2, 30}, 3));
  const int first = TakeSend(&due, At(1)).place;
  const int second = TakeSend(&due, At(2)).place;
  const int third = TakeSend(&due, At(30)).place;
  due.Ended(second, At(10), absl::ZeroDuration());
  std::vector<int> overdue;
  due.TakeOverdue(At(30), &overdue);
  EXPECT_EQ(overdue, std::vector<int>{first});
  due.TakeOverdue(At(31), &overdue);
  EXPECT_EQ(overdue, (std::vector<int>{first, third}));
}

TEST(DueRequestsTest, AnEarlierEndIsObeyed) {
  GeneratorOptions options = OpenOptions({1, 50, 60}, 10);
  options.clients.push_back({5});
  DueRequests due = OneLane(options);
  const int client = TakeSend(&due, kStart).place;
  const int arrival = TakeSend(&due, At(1)).place;
  due.EndAt(At(50));
  due.Ended(client, At(50), absl::ZeroDuration());
  due.Ended(arrival, At(50), absl::ZeroDuration());
  EXPECT_FALSE(due.Take(At(70)).has_value());
  EXPECT_TRUE(due.exhausted(At(50)));
  EXPECT_EQ(due.CountUnsent(kStart), 0);
}

TEST(DueRequestsTest, ALaterEndChangesNothing) {
  DueRequests due = OneLane(OpenOptions({1000, 1500}, 10));
  due.EndAt(At(2000));
  EXPECT_FALSE(due.Take(At(1600)).has_value());
  EXPECT_EQ(due.CountUnsent(kStart), 0);
}

TEST(DueRequestsTest, IsExhaustedOnceATraceEndsAndNothingIsInFlight) {
  DueRequests due = OneLane(OpenOptions({1, 2}, 10));
  EXPECT_FALSE(due.exhausted(kStart));
  const int first = TakeSend(&due, At(2)).place;
  const int second = TakeSend(&due, At(2)).place;
  EXPECT_FALSE(due.exhausted(At(3)));
  due.Ended(first, At(4), absl::ZeroDuration());
  EXPECT_FALSE(due.exhausted(At(4)));
  due.Ended(second, At(5), absl::ZeroDuration());
  EXPECT_TRUE(due.exhausted(At(5)));
  EXPECT_EQ(due.NextTime(), absl::InfiniteFuture());
}

TEST(DueRequestsTest, AClientThatIsDueBeforeTheEndKeepsItGoing) {
  DueRequests due = OneLane(ClosedOptions({1}));
  const int place = TakeSend(&due, kStart).place;
  due.Ended(place, At(500), absl::Milliseconds(499));
  EXPECT_FALSE(due.exhausted(At(500)));
  EXPECT_EQ(TakeSend(&due, At(999)).sequence, 1);
  due.Ended(place, At(999), absl::Milliseconds(1));
  EXPECT_TRUE(due.exhausted(At(999)));
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
  DueRequests due = OneLane(options);
  const int place = TakeSend(&due, At(3)).place;
  EXPECT_GE(due.NextTime(), At(3));
  EXPECT_LE(due.NextTime(), At(13));
  const std::optional<DueAction> action = due.Take(At(13));
  ASSERT_TRUE(action.has_value());
  EXPECT_EQ(action->kind, Kind::kCancel);
  EXPECT_EQ(action->request.place, place);
  EXPECT_EQ(due.in_flight(), 1);  // until it ends
  EXPECT_FALSE(due.Take(At(500)).has_value());
}

TEST(DueRequestsTest, ALateCancelDoesNotHitThePlacesNextRequest) {
  const GeneratorOptions options = Cancelling(1, absl::Milliseconds(10));
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  DueRequests due = OneLane(options);
  due.Ended(TakeSend(&due, kStart).place, kStart, absl::Milliseconds(20));
  // The first request's cancel falls into the pause.
  EXPECT_FALSE(due.Take(At(20) - absl::Nanoseconds(1)).has_value());
  const int place = TakeSend(&due, At(20)).place;
  due.Ended(place, At(20), absl::ZeroDuration());
  TakeSend(&due, At(20));
  // The second's is due by 30, the third's too: one is stale.
  ASSERT_TRUE(due.Take(At(30)).has_value());
  EXPECT_FALSE(due.Take(At(30)).has_value());
}

TEST(DueRequestsTest, CancelsComeAfterTheEndToo) {
  const GeneratorOptions options = Cancelling(1, absl::Hours(1));
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  DueRequests due = OneLane(options);
  TakeSend(&due, At(999));
  const std::optional<DueAction> action = due.Take(At(999) + absl::Hours(1));
  ASSERT_TRUE(action.has_value());
  EXPECT_EQ(action->kind, Kind::kCancel);
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
      const int place = TakeSend(&due, At(i)).place;
      if (due.Take(At(i)).has_value()) ++cancels;
      due.Ended(place, At(i), absl::Milliseconds(1));
    }
    const bool exact = share == 0 || share == 1;
    EXPECT_NEAR(cancels, share * kRequests,
                exact ? 0 : BinomialBound(kRequests));
  }
}

// Of all lanes together, until `until`.
int CountDisconnects(const GeneratorOptions& options, absl::Time until) {
  int count = 0;
  for (int lane = 0; lane < options.lanes; ++lane) {
    DueRequests due(options, {lane, options.lanes, kStart, At(100000)});
    while (const std::optional<DueAction> action = due.Take(until)) {
      if (action->kind == Kind::kDisconnect) ++count;
    }
  }
  return count;
}

TEST(DueRequestsTest, DisconnectsAtTheRateOfAllLanesTogether) {
  GeneratorOptions options = ClosedOptions({1, 2, 3});
  options.lanes = 3;
  options.disturbances.disconnects_per_second = 40;
  options.seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  constexpr double kMean = 40 * 50;
  EXPECT_NEAR(CountDisconnects(options, At(50000)), kMean, PoissonBound(kMean));
}

TEST(DueRequestsTest, NeverDisconnectsAfterTheEnd) {
  GeneratorOptions options = ClosedOptions({1});
  options.disturbances.disconnects_per_second = 1000;
  options.seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  EXPECT_EQ(CountDisconnects(options, At(200000)),
            CountDisconnects(options, At(100000) - absl::Nanoseconds(1)));
}

TEST(DueRequestsTest, LanesAreDisturbedIndependently) {
  GeneratorOptions options = ClosedOptions({1, 2});
  options.lanes = 2;
  options.disturbances.disconnects_per_second = 1;
  options.seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  std::set<absl::Time> times;
  for (int lane = 0; lane < 2; ++lane) {
    DueRequests due(options, {lane, 2, kStart, absl::InfiniteFuture()});
    TakeSend(&due, kStart);
    times.insert(due.NextTime());
  }
  EXPECT_EQ(times.size(), 2);
}

// Sends, ends and cancels for `steps` steps; requests take a hundredth of
// `cancel_within`, so that most cancels outlive theirs.
void Churn(DueRequests* due, int steps) {
  absl::Time now = kStart;
  std::vector<int> in_flight;
  in_flight.reserve(due->places());
  for (int i = 0; i < steps; ++i) {
    now += absl::Microseconds(10);
    while (const std::optional<DueAction> action = due->Take(now)) {
      if (action->kind == Kind::kSend) {
        in_flight.push_back(action->request.place);
      }
    }
    for (int place : in_flight) due->Ended(place, now, absl::ZeroDuration());
    in_flight.clear();
  }
}

TEST(DueRequestsTest, AllocatesOnlyInItsConstruction) {
  GeneratorOptions options = Cancelling(0.9, absl::Milliseconds(1));
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  options.disturbances.disconnects_per_second = 1000;
  options.max_in_flight = 8;
  for (int i = 0; i < 8; ++i) options.clients.push_back({i});
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
}  // namespace qgemm
