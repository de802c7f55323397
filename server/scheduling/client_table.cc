// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/client_table.h"

#include <iterator>
#include <utility>

namespace qgemm {

const ClientState* ClientTable::Find(absl::string_view id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : found->second.get();
}

ClientState* ClientTable::Get(absl::string_view id) {
  const auto found = clients_.find(id);
  if (found != clients_.end()) return found->second.get();
  if (idle_ >= max_idle_) ForgetIdle();
  auto client = std::make_unique<ClientState>();
  client->id = std::string(id);
  ++idle_;
  return clients_.emplace(client->id, std::move(client)).first->second.get();
}

void ClientTable::Add(ClientState* client, const ScheduledRequest& scheduled) {
  if (client->requests++ == 0) --idle_;
  client->rows += scheduled.rows_left();
  client->bytes += scheduled.request->operand_bytes();
}

void ClientTable::Remove(ClientState* client,
                         const ScheduledRequest& scheduled) {
  client->rows -= scheduled.rows_left();
  client->bytes -= scheduled.request->operand_bytes();
  if (--client->requests == 0) ++idle_;
}

void ClientTable::ForgetLayers() {
  for (auto& [id, client] : clients_) ForgetLayer(client.get());
}

void ClientTable::ForgetLayer(ClientState* client) {
  SequenceLayer* const layer = std::exchange(client->last_layer, nullptr);
  if (layer != nullptr) --layer->clients;
}

void ClientTable::ForgetIdle() {
  for (auto entry = clients_.begin(); entry != clients_.end();) {
    const auto next = std::next(entry);
    if (entry->second->requests == 0) {
      ForgetLayer(entry->second.get());
      clients_.erase(entry);
    }
    entry = next;
  }
  idle_ = 0;
}

}  // namespace qgemm
