// SPDX-License-Identifier: Apache-2.0
//
// Identities and their clients whose requests wait or have waited lately: what
// each has waiting, how much each was served, and who may be served next.

#ifndef QGEMM_SERVER_SCHEDULING_CLIENT_TABLE_H_
#define QGEMM_SERVER_SCHEDULING_CLIENT_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/scheduling/batching_policy.h"
#include "server/scheduling/fair_share.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/indexed_heap.h"
#include "server/scheduling/layer_sequence_predictor.h"
#include "server/scheduling/queue_admission.h"
#include "server/scheduling/waiting_request.h"

namespace qgemm {

struct IdentityState;

// A client of one identity.
struct ClientState {
  std::string id;
  IdentityState* identity = nullptr;
  int64_t requests = 0;  // that wait
  int64_t served_rows = 0;
  int64_t share_index = -1;  // in its identity's waiting_clients
  // The orders that its requests wait in.
  IntrusiveList<ClientQueue, &ClientQueue::of_client> queues;
  // Layer of its last request; null before the first.
  SequenceLayer* last_layer = nullptr;
  uint64_t last_launch = 0;  // as RecentLaunches counts
};

// The last few launches of a kind, and how many clients were last seen in each.
// Not thread-safe.
class RecentLaunches {
 public:
  // Counts a launch, and then its clients.
  void Begin() { clients_of_[++number_ % kKept] = 0; }
  void Count(ClientState* client) {
    const uint64_t last = std::exchange(client->last_launch, number_);
    if (last + kKept > number_) --clients_of_[last % kKept];
    ++clients_of_[number_ % kKept];
  }

  // Clients that were in one of them.
  int64_t clients() const {
    return std::accumulate(clients_of_.begin(), clients_of_.end(), int64_t{0});
  }
  // Those that were not in the last one.
  int64_t others() const { return clients() - clients_of_[number_ % kKept]; }

 private:
  // Clients that share launches are in every second one.
  static constexpr uint64_t kKept = 8;

  std::array<int64_t, kKept> clients_of_ = {};
  uint64_t number_ = kKept;
};

// A peer as the server knows it, and the totals of its waiting requests.
struct IdentityState {
  explicit IdentityState(const FairShareOptions& clients)
      : share_of_clients(clients) {}

  std::string id;
  QueueDepth waiting;
  int64_t merged_requests = 0;  // that wait for a merged launch
  int64_t served_rows = 0;
  int64_t any_index = -1;  // in ClientTable's heaps
  int64_t merged_index = -1;

  FairShare share_of_clients;
  IndexedHeap<ClientState, &ClientState::share_index, LessServed>
      waiting_clients;
  absl::flat_hash_map<std::string, std::unique_ptr<ClientState>> clients;
  size_t idle_clients = 0;

  // Its queues that are not empty, and their snapshots (QueueChanged).
  std::vector<IdentityQueue*> queues;
  std::vector<QueueSnapshot> snapshots;
};

struct ClientTableOptions {
  // Clients without requests that are kept, so that one that calls again costs
  // no allocation.
  size_t max_idle = 4096;
  FairShareOptions identities;
  FairShareOptions clients;  // of one identity
};

// For batches of so many rows at most, of which a tile costs as much as one.
ClientTableOptions ClientTableOptionsFor(int64_t batch_rows, int64_t tile_rows);

// Rows that a launch costs the one it is for.
struct LaunchCost {
  int64_t identity_rows = 0;
  int64_t client_rows = 0;
};

// Not thread-safe.
class ClientTable {
 public:
  explicit ClientTable(const ClientTableOptions& options)
      : options_(options), share_(options.identities) {}

  // Null for an unknown identity.
  const IdentityState* Find(absl::string_view identity) const;

  // Returns the client, made if it is unknown. It stays until it is idle.
  ClientState* Get(absl::string_view identity, absl::string_view client);

  // Counts a request in and out; the client may go with the last one out.
  void Add(ClientState* client, const ScheduledRequest& scheduled,
           LaunchKind kind);
  void Remove(ClientState* client, const ScheduledRequest& scheduled,
              LaunchKind kind);

  // Must follow a change of the queue's contents: its identity's queues and
  // snapshots change together. One that is empty is released.
  static void QueueChanged(IdentityQueue* queue);

  // Begins a decision: replaces `identities` by those that may be served next,
  // the least served that waits and all that lead it by little; of those with
  // requests for merged launches alone if no chunk may launch.
  void BeginDecision(bool chunk_may_launch,
                     std::vector<IdentityState*>* identities);
  // The client of the identity that is served least, if `client` leads it too
  // far to be served; else null.
  static const ClientState* LeastServedBefore(const ClientState& client);

  // Counts rows of a launch that began for the client, or that it rode along
  // in, for the client and for its identity.
  void Charge(ClientState* client, const LaunchCost& cost);
  void ChargeRider(ClientState* client, int64_t rows);

  // Identities that have waiting requests.
  int64_t waiting_identities() const { return any_.size(); }
  // The least served of them; null if there is none.
  IdentityState* first_waiting() const { return any_.first(); }
  template <typename Visit>
  void VisitWaiting(const Visit& visit) const {
    any_.VisitFirst([](const IdentityState&) { return true; }, visit);
  }

  // Forgets every client's last layer.
  void ForgetLayers();

 private:
  static void Deactivate(IdentityQueue* queue);
  static void ForgetLayer(ClientState* client);
  IdentityState* GetIdentity(absl::string_view id);
  void BeginWait(ClientState* client);
  void Moved(ClientState* client);
  void ForgetIdle(IdentityState* asking);
  void ForgetIdleOf(IdentityState* identity);

  const ClientTableOptions options_;
  FairShare share_;
  absl::flat_hash_map<std::string, std::unique_ptr<IdentityState>> identities_;
  // The one that came last: most requests are of the same as the one before.
  IdentityState* last_ = nullptr;
  // Those with waiting requests, and those with requests for merged launches.
  IndexedHeap<IdentityState, &IdentityState::any_index, LessServed> any_;
  IndexedHeap<IdentityState, &IdentityState::merged_index, LessServed> merged_;
  size_t idle_ = 0;  // clients
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_CLIENT_TABLE_H_
