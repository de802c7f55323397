// SPDX-License-Identifier: Apache-2.0
//
// The connections that were handed over to gRPC: their number, in all and by
// identity, its bounds, and the notice of their ends, which gRPC does not give.

#ifndef QGEMM_SERVER_NET_CONNECTION_TABLE_H_
#define QGEMM_SERVER_NET_CONNECTION_TABLE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/net/peer_table.h"

namespace qgemm {

struct ConnectionLimits {
  int max_connections = 1024;
  // Bound of one identity while it is alone; the same part of what others
  // leave, so that there is room for one more as long as this is half of all or
  // less.
  int max_peer_connections = 512;
  // Bound of the heap's allocated bytes, beyond which the connections that
  // brought most of what is in no message must go.
  int64_t max_transit_bytes = std::numeric_limits<int64_t>::max();
};

// A connection by the descriptor that gRPC has for it and will close. The
// number may then be another file's, but the inode of that one is another.
struct Connection {
  int fd = -1;
  ino_t inode = 0;
  std::string name;  // in PeerTable
  std::shared_ptr<const Peer> peer;
  bool condemned = false;  // shut down by the guard, and soon gone
};

// The inode of a descriptor; 0 if it is not open.
ino_t InodeOf(int fd);

// Used by one thread at a time.
class ConnectionTable {
 public:
  enum class Admission { kAdmitted, kTotalReached, kPeerReached };

  explicit ConnectionTable(const ConnectionLimits& limits) : limits_(limits) {}

  size_t size() const { return connections_.size(); }
  absl::Span<Connection> connections() { return absl::MakeSpan(connections_); }

  // Decides on one more connection. At a bound it first looks, at most every
  // 10 ms, which connections have ended, and calls `ended` for each.
  using Ended = absl::FunctionRef<void(const Connection& connection)>;
  Admission Admit(const std::string& identity, absl::Time now, Ended ended);

  void Add(Connection connection);

  // Removes the connections that have ended: one system call a connection.
  void RemoveEnded(absl::Time now, Ended ended);

 private:
  Admission Check(const std::string& identity) const;

  const ConnectionLimits limits_;
  std::vector<Connection> connections_;
  std::unordered_map<std::string, int> by_identity_;  // none is 0
  absl::Time looked_ = absl::InfinitePast();
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_CONNECTION_TABLE_H_
