// SPDX-License-Identifier: Apache-2.0
//
// A hash table in parts, each with its lock. The names are those of
// grpc::ServerContext::peer().

#include "server/net/peer_table.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/secret_compare.h"

namespace qgemm {
namespace {

// The peer of a connection that the table does not hold. All of one host are
// one identity, and so are all over Unix sockets.
std::shared_ptr<Peer> Stranger(const std::string& connection) {
  auto peer = std::make_shared<Peer>();
  peer->address = connection;
  if (absl::StartsWith(connection, "unix")) {
    peer->identity = "unix";
    peer->transport = "unix";
    return peer;
  }
  const size_t scheme = connection.find(':');
  const size_t port = connection.rfind(':');
  if (scheme == std::string::npos || port <= scheme) {
    peer->identity = "unknown";
    return peer;
  }
  peer->identity = absl::StrCat(
      "ip ",
      absl::string_view(connection).substr(scheme + 1, port - scheme - 1));
  return peer;
}

}  // namespace

std::shared_ptr<const Peer> ConnectionClients::Find(const Shown& shown,
                                                    uint64_t generation) const {
  MutexLock lock(&mutex_);
  for (const Known& known : known_) {
    if (known.generation == generation && known.forwarded == shown.forwarded &&
        SecretsEqual(known.authorization, shown.authorization)) {
      return known.client;
    }
  }
  return nullptr;
}

void ConnectionClients::Remember(const Shown& shown, uint64_t generation,
                                 std::shared_ptr<const Peer> client) {
  Known known = {std::string(shown.authorization), std::string(shown.forwarded),
                 generation, std::move(client)};
  MutexLock lock(&mutex_);
  known_.erase(std::remove_if(known_.begin(), known_.end(),
                              [generation](const Known& each) {
                                return each.generation != generation;
                              }),
               known_.end());
  if (known_.size() < kMostClients) {
    known_.push_back(std::move(known));
  } else {
    known_[next_++ % kMostClients] = std::move(known);
  }
}

bool ConnectionClients::Count(const std::shared_ptr<ClientUsage>& usage,
                              int quota) {
  MutexLock lock(&mutex_);
  if (ended_ || counted_.count(usage) != 0) return true;
  const int others = usage->connections.fetch_add(1, std::memory_order_relaxed);
  if (quota > 0 && others >= quota) {
    usage->connections.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  counted_.insert(usage);
  return true;
}

void ConnectionClients::End() {
  MutexLock lock(&mutex_);
  ended_ = true;
  for (const std::shared_ptr<ClientUsage>& usage : counted_) {
    usage->connections.fetch_sub(1, std::memory_order_relaxed);
  }
  counted_.clear();
}

void CountMessage(const Peer& peer, Direction direction, int64_t bytes,
                  ServerMetrics* metrics) {
  metrics->AddTransportBytes(peer.transport, direction, bytes);
  if (direction == Direction::kReceived && peer.transit != nullptr) {
    peer.transit->AddDelivered(bytes);
  }
}

std::shared_ptr<const Peer> PeerTable::Find(
    const grpc::ServerContextBase& context) const {
  return Find(context.peer());
}

std::shared_ptr<const Peer> PeerTable::Find(
    const std::string& connection) const {
  const Shard& shard = ShardOf(connection);
  {
    MutexLock lock(&shard.mutex);
    const auto found = shard.peers.find(connection);
    if (found != shard.peers.end()) return found->second;
  }
  const std::shared_ptr<Peer> stranger = Stranger(connection);
  stranger->usage = UsageOf(stranger->identity);
  stranger->clients = std::make_shared<ConnectionClients>();
  return stranger;
}

std::shared_ptr<const Peer> PeerTable::ClientOf(
    const Peer& connection, std::shared_ptr<const Principal> principal) const {
  auto client = std::make_shared<Peer>(connection);
  client->identity = absl::StrCat("client ", principal->client_id);
  client->principal = std::move(principal);
  client->usage = UsageOf(client->identity);
  client->clients = nullptr;
  return client;
}

void PeerTable::Insert(const std::string& connection,
                       std::shared_ptr<const Peer> peer) {
  peer->usage = UsageOf(peer->identity);
  peer->clients = std::make_shared<ConnectionClients>();
  Shard& shard = ShardOf(connection);
  MutexLock lock(&shard.mutex);
  shard.peers[connection] = std::move(peer);
}

void PeerTable::Erase(const std::string& connection, const Peer* peer) {
  Shard& shard = ShardOf(connection);
  MutexLock lock(&shard.mutex);
  const auto found = shard.peers.find(connection);
  if (found == shard.peers.end() || found->second.get() != peer) return;
  shard.peers.erase(found);
}

std::shared_ptr<ClientUsage> PeerTable::UsageOf(
    const std::string& identity) const {
  MutexLock lock(&usages_mutex_);
  if (usages_.size() >= most_usages_) {
    for (auto each = usages_.begin(); each != usages_.end();) {
      each = each->second.expired() ? usages_.erase(each) : std::next(each);
    }
    most_usages_ = 2 * usages_.size() + 64;
  }
  std::weak_ptr<ClientUsage>& held = usages_[identity];
  std::shared_ptr<ClientUsage> usage = held.lock();
  if (usage == nullptr) {
    usage = std::make_shared<ClientUsage>();
    if (metrics_ != nullptr) usage->traffic = metrics_->ClientTraffic(identity);
    held = usage;
  }
  return usage;
}

const PeerTable::Shard& PeerTable::ShardOf(
    const std::string& connection) const {
  return shards_[std::hash<std::string>()(connection) % kShards];
}

PeerTable::Shard& PeerTable::ShardOf(const std::string& connection) {
  return shards_[std::hash<std::string>()(connection) % kShards];
}

}  // namespace qgemm
