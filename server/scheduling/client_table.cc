// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/client_table.h"

#include <iterator>
#include <utility>

namespace qgemm {

const QueueClient* ClientTable::Find(absl::string_view id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : found->second.get();
}

QueueClient* ClientTable::Get(absl::string_view id) {
  const auto found = clients_.find(id);
  if (found != clients_.end()) return found->second.get();
  if (idle_ >= max_idle_) ForgetIdle();
  auto client = std::make_unique<QueueClient>();
  client->id = std::string(id);
  ++idle_;
  return clients_.emplace(client->id, std::move(client)).first->second.get();
}

void ClientTable::Add(QueueClient* client, const GemmRequest& request) {
  if (client->requests++ == 0) --idle_;
  client->rows += request.rows_left();
  client->bytes += request.operand_bytes();
}

void ClientTable::Remove(QueueClient* client, const GemmRequest& request) {
  client->rows -= request.rows_left();
  client->bytes -= request.operand_bytes();
  if (--client->requests == 0) ++idle_;
}

void ClientTable::ForgetPlaces() {
  for (auto& [id, client] : clients_) ForgetPlace(client.get());
}

void ClientTable::ForgetPlace(QueueClient* client) {
  LayerPlace* const place = std::exchange(client->place, nullptr);
  if (place != nullptr) --place->clients;
}

void ClientTable::ForgetIdle() {
  for (auto entry = clients_.begin(); entry != clients_.end();) {
    const auto next = std::next(entry);
    if (entry->second->requests == 0) {
      ForgetPlace(entry->second.get());
      clients_.erase(entry);
    }
    entry = next;
  }
  idle_ = 0;
}

}  // namespace qgemm
