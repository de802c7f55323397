// SPDX-License-Identifier: Apache-2.0
//
// Next request of a sender and its time: open arrivals that wait for a free
// slot in flight, closed loops that wait for their next turn, and requests
// that are to be cancelled. Decisions only: threads and clocks are in sender.h.

#ifndef QGEMM_LOADTEST_ENGINE_DUE_REQUESTS_H_
#define QGEMM_LOADTEST_ENGINE_DUE_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "loadtest/engine/load_generator.h"

namespace qgemm::loadtest {

// Share of the load that one sender carries.
struct SenderShare {
  int sender = 0;   // from 0; `senders` is the one of separate_clients
  int senders = 1;  // every senders-th arrival and client is a sender's
  absl::Time start;
  absl::Time end;  // nothing is sent that is due from here on
};

// A request to be sent.
struct DueRequest {
  int slot = 0;          // of its flight
  int64_t client = -1;   // a closed loop's client; -1: an open arrival
  int64_t sequence = 0;  // of the client's requests, or of the arrivals
  absl::Time due;
  // When it was due and a slot was free for it; the time from then until it is
  // sent is the generator's own lag.
  absl::Time ready;

  bool is_open() const { return client < 0; }
};

// Something to be done now.
struct DueAction {
  enum class Kind { kSend, kCancel, kDisconnect };
  Kind kind = Kind::kSend;
  DueRequest request;  // kSend; kCancel has only the slot
};

// Not thread-safe. Allocates nothing after its construction.
class DueRequests {
 public:
  DueRequests(const GeneratorOptions& options, const SenderShare& share);

  // options.senders, and one more if there are separate_clients.
  static int SendersOf(const GeneratorOptions& options);
  // Most requests in flight of sender number `sender`.
  static int SlotsOf(const GeneratorOptions& options, int sender);

  // Takes the next action due at `now`; nullopt if none is.
  std::optional<DueAction> Take(absl::Time now);

  // Time of Take's next action, unless a request ends before; InfiniteFuture
  // if only an end can make something due, or nothing ever will.
  absl::Time NextTime() const;

  // The request in `slot` ended at `now`. A closed loop's next one is due
  // after `pause`. True if TakeOverdue told of it.
  bool Ended(int slot, absl::Time now, absl::Duration pause);

  // Adds to `slots` those whose request was taken before `time` and has not
  // ended; each request once.
  void TakeOverdue(absl::Time time, std::vector<int>* slots);

  // Sends nothing that is due from `end` on.
  void EndAt(absl::Time end);

  // True if no request will come any more, and none is in flight. Arrivals
  // that wait for a slot when the end comes are given up.
  bool exhausted(absl::Time now) const;

  int slots() const { return static_cast<int>(slots_.size()); }
  int in_flight() const { return in_flight_; }
  // Arrivals due in [from, the end) that were never taken. Uses up the
  // arrivals.
  int64_t CountUnsent(absl::Time from);

 private:
  struct Slot {
    int64_t client = -1;      // a closed loop; -1: for arrivals
    int64_t sequence = 0;     // of the client's next request
    uint32_t generation = 0;  // counts requests, so that a late cancel is told
    bool busy = false;
    bool overdue = false;   // TakeOverdue has told so
    absl::Time taken;       // of the request
    absl::Time free_since;  // of a slot for arrivals
  };
  struct Event {
    absl::Time time;
    DueAction::Kind kind;
    int slot;
    uint32_t generation;
    bool operator>(const Event& other) const { return time > other.time; }
  };

  void AddClient(int64_t client);
  void Push(const Event& event);
  // True for a cancel of a request that has ended.
  bool IsStale(const Event& event) const;
  void DropStaleCancels();
  void AddFree(int slot, absl::Time now);
  // The slot that has been free for the longest time: the next arrival would
  // have had it if all had been sent in time.
  int TakeFree();
  // Time at which an arrival may be sent if no slot becomes free before.
  absl::Time NextArrival() const;
  std::optional<DueAction> TakeEvent(absl::Time now);
  std::optional<DueAction> TakeArrival(absl::Time now);
  DueAction Send(int slot, const DueRequest& request, absl::Time now);
  void AdvanceArrivals();
  void PushDisconnect(absl::Time after);

  const Disturbances disturbances_;
  const SenderShare share_;
  absl::Time end_;
  std::optional<ArrivalSequence> arrivals_;
  int64_t next_arrival_ = -1;  // its index over all senders
  absl::Time next_due_;        // of that arrival
  bool is_over_ = false;       // the latest Take was at the end or later
  std::vector<Slot> slots_;
  // For arrivals: a ring, the slot that became free first at first_free_.
  std::vector<int> free_slots_;
  size_t first_free_ = 0;
  size_t free_count_ = 0;
  std::vector<Event> events_;  // a heap, the soonest first
  std::mt19937_64 random_;
  int in_flight_ = 0;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_ENGINE_DUE_REQUESTS_H_
