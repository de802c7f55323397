// SPDX-License-Identifier: Apache-2.0
//
// Clients by their connections: the identity that quotas and fairness go by,
// which a client cannot choose. peer_identity.h finds it out.

#ifndef QGEMM_SERVER_NET_PEER_TABLE_H_
#define QGEMM_SERVER_NET_PEER_TABLE_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/access/principal.h"
#include "server/metrics/server_metrics.h"
#include "server/metrics/traffic.h"
#include "server/net/transit.h"

namespace grpc {
class ServerContextBase;
}  // namespace grpc

namespace qgemm {

// Quantities that all connections of an identity use together.
struct ClientUsage {
  // Null where the table counts nothing.
  std::shared_ptr<Traffic> traffic;
  // Counted by server/rpc/operands.h: operands, answers of lists that are not
  // read, and programs that wait to be loaded.
  std::atomic<int64_t> staged_bytes{0};
  std::atomic<int64_t> listed_bytes{0};
  std::atomic<int64_t> program_bytes{0};
  // Open calls of Health.Watch.
  std::atomic<int> watches{0};
  // Connections that calls of a client of the access table came over, counted
  // by ConnectionClients.
  std::atomic<int> connections{0};
};

class ConnectionClients;

// The client at the other end of a connection.
struct Peer {
  // The unit of fairness, quotas and limits of connections: "uid 1000" for a
  // process of this host, "ip 10.0.0.7" or "ip 2001:db8:1:2::/64" for others;
  // "client frontend-a" for one that the access table knows.
  std::string identity;
  // The client of the access table; null without one.
  std::shared_ptr<const Principal> principal;
  // User of the process at the other end, if that is on this host.
  std::optional<uid_t> user;
  // For logs only: "127.0.0.1:40312", "unix pid 4711".
  std::string address;
  // Label of metrics: "tcp", "unix", "tls" or "lane".
  const char* transport = "tcp";
  // Counts the messages that have come whole; null where nobody asks.
  ConnectionTransit* transit = nullptr;
  // Never null in what the table returns: it sets it before others see the
  // peer.
  mutable std::shared_ptr<ClientUsage> usage;
  // The clients of the access table that a connection's calls came from. Null
  // in those.
  mutable std::shared_ptr<ConnectionClients> clients;
};

// Remembers what calls of one connection showed of their clients, and who those
// were found to be; counts the connection for each of them while it lives.
// Thread-safe.
class ConnectionClients {
 public:
  ConnectionClients() = default;
  ConnectionClients(const ConnectionClients&) = delete;
  ConnectionClients& operator=(const ConnectionClients&) = delete;
  ~ConnectionClients() { End(); }

  // Metadata of a call: its token, and the client for which a proxy calls.
  // Borrowed.
  struct Shown {
    absl::string_view authorization;
    absl::string_view forwarded;
  };

  // The client by the table of that generation; null if it is not known.
  std::shared_ptr<const Peer> Find(const Shown& shown,
                                   uint64_t generation) const;

  // Forgets clients by tables of other generations, and the earliest one if
  // there are too many.
  void Remember(const Shown& shown, uint64_t generation,
                std::shared_ptr<const Peer> client);

  // Counts the connection for the client, unless it counts already. False, and
  // it does not, if that has `quota` connections; 0: any number.
  bool Count(const std::shared_ptr<ClientUsage>& usage, int quota);

  // The connection has ended: it counts for nobody any more.
  void End();

 private:
  // A client has a connection to itself; a proxy may share one among some.
  static constexpr size_t kMostClients = 8;

  struct Known {
    std::string authorization;
    std::string forwarded;
    uint64_t generation = 0;
    std::shared_ptr<const Peer> client;
  };

  mutable Mutex mutex_;
  std::vector<Known> known_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // to forget
  // That it counts for.
  std::set<std::shared_ptr<ClientUsage>> counted_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// A bound of the client's quota; 0 if it has none.
inline int QuotaOf(const Peer& peer, int Quota::*bound) {
  return peer.principal == nullptr ? 0 : (*peer.principal).quota.*bound;
}

// Counts a message that came whole over the peer's connection, or goes out.
void CountMessage(const Peer& peer, Direction direction, int64_t bytes,
                  ServerMetrics* metrics);

// Connections under the names that gRPC gives them, which calls ask for.
// Thread-safe.
class PeerTable {
 public:
  // `metrics` may be null, else must outlive the table.
  explicit PeerTable(ServerMetrics* metrics = nullptr) : metrics_(metrics) {}
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  // The connection's peer, without a principal. Never null. A connection that
  // is not in the table, because it has ended or another part of the process
  // accepted it, is told by its name alone.
  std::shared_ptr<const Peer> Find(
      const grpc::ServerContextBase& context) const;
  std::shared_ptr<const Peer> Find(const std::string& connection) const;

  // The peer of calls that come over `connection` from that client.
  std::shared_ptr<const Peer> ClientOf(
      const Peer& connection, std::shared_ptr<const Principal> principal) const;

  // Replaces a connection of the same name, which has ended then.
  void Insert(const std::string& connection, std::shared_ptr<const Peer> peer);

  // Removes the connection if it is still this peer's.
  void Erase(const std::string& connection, const Peer* peer);

 private:
  // So many parts that completion queues seldom meet in one.
  static constexpr size_t kShards = 16;

  struct Shard {
    mutable Mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<const Peer>> peers
        ABSL_GUARDED_BY(mutex);
  };

  // The one object of the identity while anybody holds it.
  std::shared_ptr<ClientUsage> UsageOf(const std::string& identity) const;

  const Shard& ShardOf(const std::string& connection) const;
  Shard& ShardOf(const std::string& connection);

  ServerMetrics* const metrics_;
  std::array<Shard, kShards> shards_;
  mutable Mutex usages_mutex_;
  mutable std::unordered_map<std::string, std::weak_ptr<ClientUsage>> usages_
      ABSL_GUARDED_BY(usages_mutex_);
  // Number of usages at which those that nobody holds are dropped.
  mutable size_t most_usages_ ABSL_GUARDED_BY(usages_mutex_) = 64;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_PEER_TABLE_H_
