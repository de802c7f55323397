// SPDX-License-Identifier: Apache-2.0
//
// Which request of a lane is to be sent next, and when: open arrivals that wait
// for a free place, closed loops that wait for their next turn, and requests
// that are to be cancelled. Decisions only: threads and clocks are in lane.h.

#ifndef QGEMM_LOADTEST_ENGINE_DUE_REQUESTS_H_
#define QGEMM_LOADTEST_ENGINE_DUE_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "loadtest/engine/lane_options.h"

namespace qgemm {

// The share of the load that one lane carries.
struct LaneShare {
  int lane = 0;   // its number, from 0; `lanes` for that of clients_apart
  int lanes = 1;  // every lanes-th arrival and client is a lane's
  absl::Time start;
  absl::Time end;  // nothing is sent that is due from here on
};

// A request to be sent.
struct DueRequest {
  int place = 0;         // where it is in flight
  int64_t client = -1;   // a virtual client's number; -1: an open arrival
  int64_t sequence = 0;  // of the client's requests, or of the arrivals
  absl::Time due;
  // When it was due and a place was free for it; what passes until it is sent
  // is the generator's own lag.
  absl::Time ready;

  bool is_open() const { return client < 0; }
};

// What is to be done now.
struct DueAction {
  enum class Kind { kSend, kCancel, kDisconnect };
  Kind kind = Kind::kSend;
  DueRequest request;  // kSend; of kCancel only the place
};

// Not thread-safe. Allocates nothing after its construction.
class DueRequests {
 public:
  DueRequests(const GeneratorOptions& options, const LaneShare& share);

  // Of the generator: options.lanes, and that of clients_apart if there are
  // any.
  static int LanesOf(const GeneratorOptions& options);
  // How many requests may be in flight in lane `lane`.
  static int PlacesOf(const GeneratorOptions& options, int lane);

  // Takes what is due at `now`; nothing if that is nothing.
  std::optional<DueAction> Take(absl::Time now);

  // When Take may next have something, unless a request ends before;
  // InfiniteFuture if only an end can make something due, or nothing ever will.
  absl::Time NextTime() const;

  // The request in `place` ended at `now`. A closed loop's next one is due
  // after `pause`.
  void Ended(int place, absl::Time now, absl::Duration pause);

  // Adds to `places` those whose request was taken before `time` and has not
  // ended; each request once.
  void TakeOverdue(absl::Time time, std::vector<int>* places);

  // Sends nothing that is due from `end` on.
  void EndAt(absl::Time end);

  // No request will come any more, and none is in flight. Arrivals that wait
  // for a place when the end comes are given up.
  bool exhausted(absl::Time now) const;

  int places() const { return static_cast<int>(places_.size()); }
  int in_flight() const { return in_flight_; }
  // Arrivals due in [from, the end) that were never taken. Uses up the
  // arrivals.
  int64_t CountUnsent(absl::Time from);

 private:
  struct Place {
    int64_t client = -1;      // a closed loop; -1: for arrivals
    int64_t sequence = 0;     // of the client's next request
    uint32_t generation = 0;  // counts requests, so that a late cancel is told
    bool busy = false;
    bool overdue = false;   // TakeOverdue has told so
    absl::Time taken;       // of the request
    absl::Time free_since;  // of a place for arrivals
  };
  struct Event {
    absl::Time time;
    DueAction::Kind kind;
    int place;
    uint32_t generation;
    bool operator>(const Event& other) const { return time > other.time; }
  };

  void AddClient(const VirtualClient& client);
  void Push(const Event& event);
  // A cancel of a request that has ended.
  bool IsStale(const Event& event) const;
  void DropStaleCancels();
  void AddFree(int place, absl::Time now);
  // The place that has been free for the longest time: the next arrival would
  // have had it, had all been sent in time.
  int TakeFree();
  // When an arrival may be sent, if no place becomes free before.
  absl::Time NextArrival() const;
  std::optional<DueAction> TakeEvent(absl::Time now);
  std::optional<DueAction> TakeArrival(absl::Time now);
  DueAction Send(int place, const DueRequest& request, absl::Time now);
  void AdvanceArrivals();
  void PushDisconnect(absl::Time after);

  const Disturbances disturbances_;
  const LaneShare share_;
  absl::Time end_;
  std::optional<ArrivalSequence> arrivals_;
  int64_t next_arrival_ = -1;  // its index over all lanes
  absl::Time next_due_;        // of that arrival
  bool is_over_ = false;       // the latest Take was at the end or later
  std::vector<Place> places_;
  // For arrivals: a ring, the place that became free first at first_free_.
  std::vector<int> free_places_;
  size_t first_free_ = 0;
  size_t free_count_ = 0;
  std::vector<Event> events_;  // a heap, the soonest first
  std::mt19937_64 random_;
  int in_flight_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_DUE_REQUESTS_H_
