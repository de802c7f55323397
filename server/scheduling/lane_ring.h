// SPDX-License-Identifier: Apache-2.0
//
// Clients that take turns: deficit round robin on rows, first in first out
// within a client (Shreedhar and Varghese, "Efficient Fair Queuing Using
// Deficit Round Robin", 1995).

#ifndef QGEMM_SERVER_SCHEDULING_LANE_RING_H_
#define QGEMM_SERVER_SCHEDULING_LANE_RING_H_

#include <cstdint>

#include "server/scheduling/intrusive_list.h"
#include "server/scheduling/waiting_request.h"

namespace qgemm {

// What one client waits for at one priority of one queue; in a ring while it
// is not empty.
struct ClientLane {
  const QueueClient* client = nullptr;
  Priority priority = Priority::kNormal;
  IntrusiveList<WaitingRequest, &WaitingRequest::in_lane> requests;
  // Rows that it may take before its turn ends; below zero after a request
  // that went ahead of its turn.
  int64_t credit_rows = 0;
  bool in_turn = false;
  ListLinks<ClientLane> in_ring;
};

// Not thread-safe; borrows its lanes, none of which is empty.
class LaneRing {
 public:
  // Rows that a turn adds to a lane's credit: a few requests of decoding, and
  // few enough turns until the largest request may go.
  static constexpr int64_t kTurnRows = 8;

  bool empty() const { return lanes_.empty(); }

  // As the last to have a turn.
  void Add(ClientLane* lane) { lanes_.PushBack(lane); }
  // As the first.
  void AddFront(ClientLane* lane) { lanes_.PushFront(lane); }
  void Remove(ClientLane* lane) { lanes_.Remove(lane); }
  ClientLane* first() const { return lanes_.front(); }
  static ClientLane* Next(const ClientLane* lane) { return Lanes::Next(lane); }

  // The request whose turn it is, each of which costs `rows_of` its rows; null
  // if the ring is empty. Ends the turns of lanes whose credit is spent.
  template <typename RowsOf>
  WaitingRequest* Offer(const RowsOf& rows_of) {
    while (!lanes_.empty()) {
      ClientLane* const lane = lanes_.front();
      if (!lane->in_turn) {
        lane->in_turn = true;
        lane->credit_rows += kTurnRows;
      }
      WaitingRequest* const head = lane->requests.front();
      if (rows_of(*head) <= lane->credit_rows) return head;
      lane->in_turn = false;
      lanes_.Remove(lane);
      lanes_.PushBack(lane);
    }
    return nullptr;
  }

 private:
  using Lanes = IntrusiveList<ClientLane, &ClientLane::in_ring>;

  Lanes lanes_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_LANE_RING_H_
