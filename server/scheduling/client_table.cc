// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/client_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/scheduling/fair_queue.h"
#include "server/scheduling/identity_queue.h"

namespace qgemm {

ClientTableOptions ClientTableOptionsFor(int64_t batch_rows,
                                         int64_t tile_rows) {
  // Batches by which a client may lead another of its identity: with 4 the
  // simulator's walks under kChase are as fast as without a bound, with 1 up to
  // 17 % slower.
  constexpr int64_t kClientLeadBatches = 4;
  // Rows that rode along count up to so many leads, or batches.
  constexpr int64_t kRiderLeads = 2;
  ClientTableOptions table;
  // A launch of its own costs an identity a tile at least, so that a lead of
  // one means one such launch.
  table.identities.lead_rows = tile_rows;
  table.identities.rider_lead_rows = kRiderLeads * batch_rows;
  table.clients.lead_rows = kClientLeadBatches * batch_rows;
  table.clients.rider_lead_rows = kRiderLeads * table.clients.lead_rows;
  return table;
}

const IdentityState* ClientTable::Find(absl::string_view identity) const {
  if (last_ != nullptr && last_->id == identity) return last_;
  const auto found = identities_.find(identity);
  return found == identities_.end() ? nullptr : found->second.get();
}

IdentityState* ClientTable::GetIdentity(absl::string_view id) {
  if (last_ != nullptr && last_->id == id) return last_;
  std::unique_ptr<IdentityState>& identity = identities_[id];
  if (identity == nullptr) {
    identity = std::make_unique<IdentityState>(options_.clients);
    identity->id = std::string(id);
  }
  last_ = identity.get();
  return last_;
}

ClientState* ClientTable::Get(absl::string_view identity_id,
                              absl::string_view client_id) {
  IdentityState* const identity = GetIdentity(identity_id);
  const auto found = identity->clients.find(client_id);
  if (found != identity->clients.end()) return found->second.get();
  if (idle_ >= options_.max_idle) ForgetIdle(identity);
  auto client = std::make_unique<ClientState>();
  client->id = std::string(client_id);
  client->identity = identity;
  ++identity->idle_clients;
  ++idle_;
  return identity->clients.emplace(client->id, std::move(client))
      .first->second.get();
}

void ClientTable::Add(ClientState* client, const ScheduledRequest& scheduled,
                      LaunchKind kind) {
  IdentityState* const identity = client->identity;
  if (client->requests++ == 0) BeginWait(client);
  if (kind == LaunchKind::kMerged && identity->merged_requests++ == 0) {
    merged_.Push(identity);
  }
  ++identity->waiting.requests;
  identity->waiting.rows += scheduled.rows_left();
  identity->waiting.bytes += scheduled.request->operand_bytes();
}

void ClientTable::BeginWait(ClientState* client) {
  IdentityState* const identity = client->identity;
  --identity->idle_clients;
  --idle_;
  client->served_rows = identity->share_of_clients.Enter(client->served_rows);
  identity->waiting_clients.Push(client);
  if (identity->waiting.requests > 0) return;
  identity->served_rows = share_.Enter(identity->served_rows);
  any_.Push(identity);
}

void ClientTable::Remove(ClientState* client, const ScheduledRequest& scheduled,
                         LaunchKind kind) {
  IdentityState* const identity = client->identity;
  identity->waiting.rows -= scheduled.rows_left();
  identity->waiting.bytes -= scheduled.request->operand_bytes();
  if (--identity->waiting.requests == 0) any_.Remove(identity);
  if (kind == LaunchKind::kMerged && --identity->merged_requests == 0) {
    merged_.Remove(identity);
  }
  if (--client->requests > 0) return;
  identity->waiting_clients.Remove(client);
  ++identity->idle_clients;
  ++idle_;
}

void ClientTable::QueueChanged(IdentityQueue* queue) {
  if (queue->empty()) return Deactivate(queue);
  IdentityState* const identity = queue->identity();
  if (queue->active_index < 0) {
    queue->active_index = static_cast<int64_t>(identity->queues.size());
    identity->queues.push_back(queue);
    identity->snapshots.emplace_back();
  }
  QueueSnapshot& snapshot = identity->snapshots[queue->active_index];
  snapshot.kind = queue->queue()->key().kind;
  snapshot.priority = queue->highest_priority();
  snapshot.rows = queue->queue()->rows();
  snapshot.oldest = queue->oldest()->waiting_since();
  snapshot.earliest_deadline = queue->deadlines().earliest();
}

void ClientTable::Deactivate(IdentityQueue* queue) {
  const int64_t index = std::exchange(queue->active_index, -1);
  if (index < 0) return;
  IdentityState* const identity = queue->identity();
  IdentityQueue* const last = identity->queues.back();
  if (last != queue) {
    last->active_index = index;
    identity->queues[index] = last;
    identity->snapshots[index] = identity->snapshots.back();
  }
  identity->queues.pop_back();
  identity->snapshots.pop_back();
  queue->queue()->Release(queue);
}

void ClientTable::BeginDecision(bool chunk_may_launch,
                                std::vector<IdentityState*>* identities) {
  identities->clear();
  const IdentityState* const least =
      chunk_may_launch ? any_.first() : merged_.first();
  if (least == nullptr) return;
  share_.Advance(least->served_rows);
  const auto may_launch = [&](const IdentityState& identity) {
    return share_.MayLaunch(identity.served_rows, least->served_rows);
  };
  const auto add = [&](IdentityState* identity) {
    identity->share_of_clients.Advance(
        identity->waiting_clients.first()->served_rows);
    identities->push_back(identity);
  };
  chunk_may_launch ? any_.VisitFirst(may_launch, add)
                   : merged_.VisitFirst(may_launch, add);
}

const ClientState* ClientTable::LeastServedBefore(const ClientState& client) {
  const IdentityState& identity = *client.identity;
  const ClientState* const least = identity.waiting_clients.first();
  return identity.share_of_clients.MayLaunch(client.served_rows,
                                             least->served_rows)
             ? nullptr
             : least;
}

void ClientTable::Charge(ClientState* client, const LaunchCost& cost) {
  client->served_rows += cost.client_rows;
  client->identity->served_rows += cost.identity_rows;
  Moved(client);
}

void ClientTable::ChargeRider(ClientState* client, int64_t rows) {
  IdentityState* const identity = client->identity;
  client->served_rows =
      identity->share_of_clients.ChargedRider(client->served_rows, rows);
  identity->served_rows = share_.ChargedRider(identity->served_rows, rows);
  Moved(client);
}

void ClientTable::Moved(ClientState* client) {
  IdentityState* const identity = client->identity;
  identity->waiting_clients.Moved(client);
  any_.Moved(identity);
  merged_.Moved(identity);
}

void ClientTable::ForgetLayers() {
  for (auto& [id, identity] : identities_) {
    for (auto& [client_id, client] : identity->clients) {
      ForgetLayer(client.get());
    }
  }
}

void ClientTable::ForgetLayer(ClientState* client) {
  SequenceLayer* const layer = std::exchange(client->last_layer, nullptr);
  if (layer != nullptr) --layer->clients;
}

// An identity that invents clients loses its own. Those of others stay unless
// it has too few for the visit to be worth it.
void ClientTable::ForgetIdle(IdentityState* asking) {
  if (asking->idle_clients > options_.max_idle / 8) {
    ForgetIdleOf(asking);
    return;
  }
  for (auto entry = identities_.begin(); entry != identities_.end();) {
    const auto next = std::next(entry);
    IdentityState* const identity = entry->second.get();
    ForgetIdleOf(identity);
    if (identity != asking && identity->clients.empty()) {
      if (identity == last_) last_ = nullptr;
      identities_.erase(entry);
    }
    entry = next;
  }
}

void ClientTable::ForgetIdleOf(IdentityState* identity) {
  for (auto entry = identity->clients.begin();
       entry != identity->clients.end();) {
    const auto next = std::next(entry);
    if (entry->second->requests == 0) {
      ForgetLayer(entry->second.get());
      identity->clients.erase(entry);
    }
    entry = next;
  }
  idle_ -= std::exchange(identity->idle_clients, 0);
}

}  // namespace qgemm
