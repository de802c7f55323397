// SPDX-License-Identifier: Apache-2.0
//
// Clients by their connections: the identity that quotas and fairness go by,
// which a client cannot choose. peer_identity.h finds it out.

#ifndef QGEMM_SERVER_NET_PEER_TABLE_H_
#define QGEMM_SERVER_NET_PEER_TABLE_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace grpc {
class ServerContextBase;
}  // namespace grpc

namespace qgemm {

// The client at the other end of a connection.
struct Peer {
  // The unit of fairness, quotas and limits of connections: "uid 1000" for a
  // process of this host, "ip 10.0.0.7" or "ip 2001:db8:1:2::/64" for others.
  std::string identity;
  // For logs only: "127.0.0.1:40312", "unix pid 4711".
  std::string address;
  // Label of metrics: "tcp" or "unix".
  const char* transport = "tcp";
};

// Connections under the names that gRPC gives them, which calls ask for.
// Thread-safe.
class PeerTable {
 public:
  PeerTable() = default;
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  // Never null. A connection that is not in the table, because it has ended or
  // another part of the process accepted it, is told by its name alone.
  std::shared_ptr<const Peer> Find(
      const grpc::ServerContextBase& context) const;
  std::shared_ptr<const Peer> Find(const std::string& connection) const;

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

  const Shard& ShardOf(const std::string& connection) const;
  Shard& ShardOf(const std::string& connection);

  std::array<Shard, kShards> shards_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_PEER_TABLE_H_
